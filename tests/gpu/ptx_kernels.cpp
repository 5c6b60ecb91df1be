#include "tests/gpu/ptx_kernels.h"

namespace tilewright::test {
namespace {

Parameter view(const char *name, int rank, ElementType element = ElementType::f32, bool written = false) {
  return {Parameter::Kind::view, name, element, rank, written};
}
Parameter index(const char *name) { return {Parameter::Kind::index, name, ElementType::f32, 0, false}; }
Parameter float32(const char *name) { return {Parameter::Kind::float32, name, ElementType::f32, 0, false}; }

/// "p0", "p1", … of the types that the parameters are passed as.
std::string declare(const std::vector<Parameter> &parameters) {
  std::string text;
  int count = 0;
  for (const Parameter &parameter : parameters) {
    const bool isView = parameter.kind == Parameter::Kind::view;
    const char *type = parameter.kind == Parameter::Kind::float32 ? ".f32" : ".u64";
    for (int slot = 0; slot < (!isView ? 1 : parameter.rank == 1 ? 2 : 4); ++slot) {
      text += text.empty() ? "" : ", ";
      text += std::string(".param ") + type + " p" + std::to_string(count++);
    }
  }
  return text;
}

Artifact kernel(const std::string &name, std::vector<Parameter> parameters, std::vector<GridAxis> grid,
                int threads, const std::string &body) {
  Artifact artifact;
  artifact.kernel = name;
  artifact.target = "nvptx sm_80";
  artifact.assembly = ".version 7.0\n.target sm_80\n.address_size 64\n"
                      ".extern .shared .align 16 .b8 shared[];\n.visible .entry " +
                      name + "(" + declare(parameters) + ") {\n" + body + "\n}\n";
  artifact.parameters = std::move(parameters);
  artifact.grid = std::move(grid);
  artifact.threads = threads;
  return artifact;
}

/// Makes it one for Hopper, with one more parameter behind the others.
void addHopperParameter(Artifact &artifact, const std::string &declaration) {
  const std::string portable = ".version 7.0\n.target sm_80";
  artifact.assembly.replace(0, portable.size(), ".version 8.0\n.target sm_90a");
  artifact.assembly.insert(artifact.assembly.find(") {"), ", " + declaration);
  artifact.target = "nvptx sm_90a";
}

} // namespace

Artifact scaleRowsArtifact() {
  return kernel(
      "scale_rows",
      {view("x", 2), view("y", 1), view("out", 2, ElementType::f32, true), index("n"), float32("alpha")},
      {{0, 0, 1}, {0, 1, 128}}, 128, R"(
  .reg .pred %outside; .reg .b32 %t, %block; .reg .f32 %x, %y, %alpha, %n; .reg .b64 %a, %row, %column, %columns, %stride, %nn;
  mov.u32 %t, %ctaid.x;  cvt.u64.u32 %row, %t;
  mov.u32 %t, %tid.x;  mov.u32 %block, %ctaid.y;
  mad.lo.u32 %t, %block, 128, %t;  cvt.u64.u32 %column, %t;
  ld.param.u64 %columns, [p2];
  setp.ge.u64 %outside, %column, %columns;
  @%outside ret;
  ld.param.u64 %a, [p0];  ld.param.u64 %stride, [p3];
  mad.lo.u64 %stride, %row, %stride, %column;  mad.lo.u64 %a, %stride, 4, %a;  ld.global.f32 %x, [%a];
  ld.param.u64 %a, [p4];  mad.lo.u64 %a, %row, 4, %a;  ld.global.f32 %y, [%a];
  ld.param.f32 %alpha, [p11];  ld.param.u64 %nn, [p10];  cvt.rn.f32.s64 %n, %nn;
  mul.f32 %x, %x, %alpha;  fma.rn.f32 %x, %x, %y, %n;
  ld.param.u64 %a, [p6];  ld.param.u64 %stride, [p9];
  mad.lo.u64 %stride, %row, %stride, %column;  mad.lo.u64 %a, %stride, 4, %a;  st.global.f32 [%a], %x;
  ret;)");
}

Artifact countProgramsArtifact() {
  return kernel("count_programs",
                {view("out", 1, ElementType::i32, true), index("a"), index("b"), index("c")},
                {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}}, 32, R"(
  .reg .pred %other; .reg .b32 %t, %at; .reg .b64 %a, %offset;
  mov.u32 %t, %tid.x;  setp.ne.u32 %other, %t, 0;
  @%other ret;
  mov.u32 %at, %ctaid.x;
  mov.u32 %t, %ctaid.y;  mad.lo.u32 %at, %t, 100, %at;
  mov.u32 %t, %ctaid.z;  mad.lo.u32 %at, %t, 10000, %at;
  ld.param.u64 %a, [p0];  mul.wide.u32 %offset, %at, 4;  add.u64 %a, %a, %offset;
  red.global.add.u32 [%a], 1;
  ret;)");
}

Artifact reverseArtifact() {
  Artifact artifact = kernel("reverse", {view("out", 1, ElementType::f32, true)}, {}, 256, R"(
  .reg .pred %more; .reg .b32 %t, %i, %s, %base; .reg .f32 %f; .reg .b64 %a, %offset;
  mov.u32 %t, %tid.x;  mov.u32 %i, %t;  mov.u32 %base, shared;
fill:
  cvt.rn.f32.u32 %f, %i;
  mad.lo.u32 %s, %i, 4, %base;  st.shared.f32 [%s], %f;
  add.u32 %i, %i, 256;  setp.lt.u32 %more, %i, 25600;
  @%more bra fill;
  bar.sync 0;
  mov.u32 %i, %t;
copy:
  sub.u32 %s, 25599, %i;  mad.lo.u32 %s, %s, 4, %base;  ld.shared.f32 %f, [%s];
  ld.param.u64 %a, [p0];  mul.wide.u32 %offset, %i, 4;  add.u64 %a, %a, %offset;
  st.global.f32 [%a], %f;
  add.u32 %i, %i, 256;  setp.lt.u32 %more, %i, 25600;
  @%more bra copy;
  ret;)");
  artifact.sharedBytes = 25600 * 4;
  return artifact;
}

Artifact waitArtifact() {
  return kernel("wait", {index("nanoseconds")}, {}, 32, R"(
  .reg .pred %more; .reg .b64 %begin, %now, %end;
  mov.u64 %begin, %globaltimer;  ld.param.u64 %end, [p0];  add.u64 %end, %end, %begin;
again:
  mov.u64 %now, %globaltimer;  setp.lt.u64 %more, %now, %end;
  @%more bra again;
  ret;)");
}

Artifact spoilArtifact() {
  return kernel("spoil", {index("address")}, {}, 32, R"(
  .reg .b64 %a;
  ld.param.u64 %a, [p0];  st.global.u32 [%a], 1;
  ret;)");
}

Artifact copyBoxesArtifact() {
  Artifact artifact = kernel("copy_boxes", {view("x", 2), view("out", 2, ElementType::f32, true)},
                             {{0, 0, 8}, {0, 1, 32}}, 256, R"(
  .shared .align 1024 .b8 box[1024];  .shared .align 8 .b64 full;
  .reg .pred %first, %end, %there; .reg .f32 %f; .reg .b64 %map, %a, %stride, %offset;
  .reg .b32 %t, %r, %c, %s, %u, %box, %full, %rows, %columns, %count, %p, %step, %i, %j, %phase;
  mov.u32 %t, %tid.x;  shr.u32 %r, %t, 5;  and.b32 %c, %t, 31;
  shr.u32 %s, %c, 2;  xor.b32 %s, %s, %r;  shl.b32 %s, %s, 4;
  and.b32 %u, %c, 3;  mad.lo.u32 %s, %u, 4, %s;  mad.lo.u32 %s, %r, 128, %s;
  mov.u32 %box, box;  add.u32 %s, %s, %box;  mov.u32 %full, full;
  mov.b64 %map, p8;  cvta.param.u64 %map, %map;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared.b64 [%full], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  ld.param.u32 %rows, [p1];  add.u32 %rows, %rows, 7;  shr.u32 %rows, %rows, 3;
  ld.param.u32 %columns, [p2];  add.u32 %columns, %columns, 31;  shr.u32 %columns, %columns, 5;
  mul.lo.u32 %count, %rows, %columns;
  ld.param.u64 %a, [p4];  ld.param.u64 %stride, [p7];
  mov.u32 %p, %ctaid.x;  mov.u32 %step, %nctaid.x;  mov.u32 %phase, 0;
next:
  setp.ge.u32 %end, %p, %count;
  @%end ret;
  rem.u32 %i, %p, %rows;  shl.b32 %i, %i, 3;  div.u32 %j, %p, %rows;  shl.b32 %j, %j, 5;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], 1024;
  @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%box], [%map, {%j, %i}], [%full];
wait:
  mbarrier.try_wait.parity.shared.b64 %there, [%full], %phase;
  @!%there bra wait;
  ld.shared.f32 %f, [%s];
  add.u32 %i, %i, %r;  add.u32 %j, %j, %c;
  cvt.u64.u32 %offset, %i;  mul.lo.u64 %offset, %offset, %stride;
  .reg .b64 %column;  cvt.u64.u32 %column, %j;  add.u64 %offset, %offset, %column;
  mad.lo.u64 %offset, %offset, 4, %a;  st.global.f32 [%offset], %f;
  bar.sync 0;
  xor.b32 %phase, %phase, 1;  add.u32 %p, %p, %step;
  bra next;)");
  addHopperParameter(artifact, ".param .align 64 .b8 p8[128]");
  artifact.tensorMaps = {{0, 8, 32}};
  artifact.persistent = true;
  return artifact;
}

Artifact noteRanksArtifact() {
  Artifact artifact =
      kernel("note_ranks", {view("seen", 1, ElementType::i32, true), index("programs")}, {{1, 0, 1}}, 384, R"(
  .reg .pred %other, %more; .reg .b32 %t, %rank, %s; .reg .b64 %a, %ranks, %begin, %now;
  mov.u64 %begin, %globaltimer;
  mov.u32 %t, %tid.x;  mov.u32 %s, %cluster_ctarank;  or.b32 %t, %t, %s;
  setp.ne.u32 %other, %t, 0;
  @%other bra stay;
  mov.u32 %t, %clusterid.x;  mov.u32 %rank, %t;
  ld.param.u64 %ranks, [p3];
  setp.ne.u64 %more, %ranks, 0;
  mad.wide.u32 %ranks, %t, 4, %ranks;
  @%more ld.global.u32 %rank, [%ranks];
  ld.param.u64 %a, [p0];  mad.wide.u32 %a, %rank, 4, %a;
  mov.u32 %s, %smid;  add.u32 %s, %s, 1;
  red.global.add.u32 [%a], %s;
stay:
  mov.u64 %now, %globaltimer;  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, 50000;
  @%more bra stay;
  ret;)");
  addHopperParameter(artifact, ".param .u64 p3");
  artifact.sharedBytes = 200 << 10; // no multiprocessor takes two
  artifact.persistent = true;
  artifact.clusterCtas = 2;
  artifact.ranksClusters = true;
  return artifact;
}

Artifact nopArtifact() {
  return kernel("nop",
                {view("a", 2), view("b", 2), view("c", 2), view("d", 2), view("e", 1), view("f", 1),
                 index("g"), index("h"), float32("i"), float32("j")},
                {{0, 0, 1}, {0, 1, 1}}, 32, "  ret;");
}

} // namespace tilewright::test
