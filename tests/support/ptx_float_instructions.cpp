#include <cmath>

#include "compiler/number_formats.h"
#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {
namespace {

float withoutDenormals(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

} // namespace

Operand computeFloat(const Operation &op, const std::vector<Operand> &x) {
  const std::string &name = op.parts[0];
  const auto of = [&](auto f) -> Operand {
    return [=](const Thread &t) {
      float v[3] = {};
      for (std::size_t i = 0; i < x.size(); ++i)
        v[i] = op.real(x[i](t));
      return op.fromReal(f(v[0], v[1], v[2]));
    };
  };
  if (name == "add") return of([](float p, float q, float) { return p + q; });
  if (name == "sub") return of([](float p, float q, float) { return p - q; });
  if (name == "mul") return of([](float p, float q, float) { return p * q; });
  if (name == "fma") return of([](float p, float q, float r) { return std::fma(p, q, r); });
  if (name == "div") return of([](float p, float q, float) { return p / q; });
  if (name == "rcp") return of([](float p, float, float) { return 1 / p; });
  if (name == "sqrt") return of([](float p, float, float) { return std::sqrt(p); });
  if (name == "rsqrt") return of([](float p, float, float) { return 1 / std::sqrt(p); });
  if (name == "ex2") return of([](float p, float, float) { return withoutDenormals(std::exp2(p)); });
  if (name == "neg") return of([](float p, float, float) { return -p; });
  if (name == "abs") return of([](float p, float, float) { return std::fabs(p); });
  const bool keepsNaN = op.has("NaN");
  const auto extreme = [&](auto f) {
    return of([=](float p, float q, float) {
      return keepsNaN && (std::isnan(p) || std::isnan(q)) ? std::nanf("") : f(p, q);
    });
  };
  if (name == "max") return extreme([](float p, float q) { return std::fmax(p, q); });
  if (name == "min") return extreme([](float p, float q) { return std::fmin(p, q); });
  fail("instruction " + name + " of floats");
}

Operand computePair(const Operation &op, const std::vector<Operand> &x) {
  const std::string &name = op.parts[0];
  const auto of = [&](auto f) -> Operand {
    return [=](const Thread &t) {
      uint64_t word = 0;
      for (const int shift : {0, 16}) {
        const auto half = [&](int i) { return toFloat(x[i](t) >> shift << 16); };
        word |= uint64_t(bf16FromDouble(f(half(0), half(1)))) << shift;
      }
      return word;
    };
  };
  if (name == "mul") return of([](float p, float q) { return p * q; });
  if (name == "set" && op.parts[1] == "ge") return of([](float p, float q) { return p >= q ? 1.0f : 0.0f; });
  fail("instruction " + name + " of pairs of bf16");
}

Operand convert(const Operation &op, const std::vector<Operand> &x) {
  if (op.has("rna")) // to TF32
    return [=](const Thread &t) {
      const uint64_t bits = x[0](t);
      return std::isfinite(toFloat(bits)) ? (bits + 0x1000) & 0xffffe000 : bits;
    };
  const Operation to(op.parts[op.parts.size() - 2]);
  const std::string &type = to.parts[0], &from = op.parts.back();
  if (op.kind == 'f' && to.kind != 'f' && to.kind != 'b') {
    if (!op.has("rzi")) fail("rounding of floats to integers but towards zero");
    return [=](const Thread &t) {
      return to.cut(static_cast<uint64_t>(static_cast<int64_t>(op.real(x[0](t)))));
    };
  }
  if (from == "f32") {
    const auto narrow = type[0] == 'b' ? bf16FromDouble : f16FromDouble;
    const bool isPair = type.size() > 2 && type.substr(type.size() - 2) == "x2";
    return [=](const Thread &t) {
      const uint64_t first = narrow(toFloat(x[0](t)));
      return isPair ? first << 16 | narrow(toFloat(x[1](t))) : first;
    };
  }
  if (from == "f16")
    return [=](const Thread &t) { return toBits(floatFromF16(static_cast<uint16_t>(x[0](t)))); };
  if (from == "bf16") return [=](const Thread &t) { return x[0](t) << 16; };
  if (to.kind == 'f')
    return [=](const Thread &t) { return to.fromReal(static_cast<float>(op.number(x[0](t)))); };
  return [=](const Thread &t) { return to.cut(static_cast<uint64_t>(op.number(x[0](t)))); };
}

} // namespace tilewright::test::ptx
