#include <set>
#include <sstream>

#include <fmt/format.h>

#include "tools/bench/bench.h"
#include "tools/bench/example_cases.h"
#include "tools/commands/commands.h"
#include "tools/commands/loss_arguments.h"
#include "tools/io/output_folder.h"

namespace tilewright {
namespace {

constexpr ProblemShape kCompileShape = {256, 256,
                                        4096}; // small: what is measured is the way to the first result

Baseline baselineNamed(const std::string &name) {
  return name == "blas" ? Baseline::blas : name == "cublas" ? Baseline::cublas : Baseline::none;
}

StatusOr<LinearBench> readLinearBench(const Arguments &arguments, const std::string &against) {
  LinearBench linear;
  linear.baseline = baselineNamed(against);
  TW_ASSIGN_OR_RETURN(linear.workspaceLimit, arguments.bytes("--workspace-limit", 0));
  TW_ASSIGN_OR_RETURN(const std::string data, arguments.choice("--data", {"random", "peaked"}, {}));
  linear.peaked = data == "peaked";
  linear.lossOnly = arguments.has("--loss-only");
  TW_ASSIGN_OR_RETURN(const std::string type, arguments.choice("--grad-weight", {"same", "f32"}, {}));
  linear.wideWeightGradient = type == "f32";
  TW_ASSIGN_OR_RETURN(const std::string apart, arguments.choice("--apart", {"no", "gradients", "lse"}, {}));
  linear.apart = apart == "gradients" ? ApartBy::gradients : apart == "lse" ? ApartBy::lse : ApartBy::nothing;
  if (linear.lossOnly && linear.apart != ApartBy::nothing)
    return userError("expected --apart with gradients, found --loss-only");
  return linear;
}

/// "M,N,K": as many sizes as there are.
StatusOr<std::vector<int64_t>> parseSizes(const std::string &text) {
  std::vector<int64_t> sizes;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool isNumber =
        !word.empty() && word.size() < 11 && word.find_first_not_of("0123456789") == std::string::npos;
    if (!isNumber) return userError("expected --shape of sizes such as 4096,8192, found '" + text + "'");
    sizes.push_back(std::stoll(word));
  }
  return sizes;
}

/// Example kernels alone: none of the options that say how a loss is measured.
Status benchExamples(const Arguments &arguments, const NumberType &type) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice("--kernel", exampleNames(), {}));
  if (type.tf32) return userError("expected --dtype f32, bf16 or f16 with --kernel, found tf32");
  for (const OptionSpec &option : benchCommand().options)
    if (arguments.has(option.name) &&
        std::set<std::string>{"--kernel", "--shape", "--dtype", "--target", "--json"}.count(option.name) == 0)
      return userError("expected --kernel with --shape, --dtype, --target and --json alone, found " +
                       option.name);
  const std::optional<std::string> file = arguments.text("--json");
  if (file) TW_RETURN_IF_ERROR(checkFile(*file));
  if (!arguments.has("--shape")) return userError("expected --shape with --kernel, found none");
  TW_ASSIGN_OR_RETURN(const auto runtime, Runtime::open("", arguments.text("--target").value_or("")));
  fmt::print("{}\n", runtime->device().info().name);
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const std::string &text : arguments.list("--shape")) {
    TW_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, parseSizes(text));
    fmt::print("\n");
    TW_ASSIGN_OR_RETURN(nlohmann::ordered_json result, benchKernel(*runtime, name, sizes, type));
    results.push_back(std::move(result));
  }
  if (file) return writeFile(*file, results.dump(2) + "\n");
  return {};
}

/// A grid of problems: the plain measurement of a loss, with its options, of each of them.
Status benchHeads(const Arguments &arguments, const NumberType &type) {
  for (const char *option : {"--shape", "--each-option", "--host", "--first-call", "--compile", "--shards"})
    if (arguments.has(option))
      return userError(std::string("expected --grid alone, or ") + option + ", found both");
  std::string against = "none";
  if (arguments.has("--against")) {
    TW_ASSIGN_OR_RETURN(against, arguments.choice("--against", {"blas", "cublas"}, {}));
  }
  TW_ASSIGN_OR_RETURN(const LinearBench linear, readLinearBench(arguments, against));
  TW_ASSIGN_OR_RETURN(const std::vector<HeadProblem> problems, readGrid(*arguments.text("--grid")));
  const std::optional<std::string> file = arguments.text("--json");
  if (file) TW_RETURN_IF_ERROR(checkFile(*file));
  TW_ASSIGN_OR_RETURN(const auto runtime, Runtime::open("", arguments.text("--target").value_or("")));
  TW_RETURN_IF_ERROR(checkBaseline(linear.baseline, runtime->device()));
  fmt::print("{}, {}\n", runtime->device().info().name, type.name());
  return benchGrid(*runtime, problems, type, linear, [&](const nlohmann::ordered_json &result) {
    return file ? writeFile(*file, result.dump(2) + "\n") : Status();
  });
}

Status bench(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const NumberType type, readNumberType(arguments));
  if (arguments.has("--grid")) return benchHeads(arguments, type);
  if (arguments.has("--kernel")) return benchExamples(arguments, type);
  std::string against;
  if (arguments.has("--against")) {
    TW_ASSIGN_OR_RETURN(against, arguments.choice("--against", {"blas", "cublas", "copy"}, {}));
  }
  const bool compiling = arguments.has("--compile");
  TW_ASSIGN_OR_RETURN(const LinearBench linear, readLinearBench(arguments, against));
  std::vector<ProblemShape> shapes;
  for (const std::string &text : arguments.list("--shape")) {
    TW_ASSIGN_OR_RETURN(const ProblemShape shape, parseShape(text));
    shapes.push_back(shape);
  }
  if (shapes.empty() && !compiling) return userError("expected --shape N,H,V or --compile, found neither");
  const bool options = arguments.has("--each-option"), host = arguments.has("--host");
  const bool first = arguments.has("--first-call");
  TW_ASSIGN_OR_RETURN(const std::vector<int64_t> shards, readShards(arguments));
  if (int(compiling) + int(options) + int(host) + int(first) + int(!against.empty()) + int(!shards.empty()) >
      1)
    return userError(
        "expected one of --against, --each-option, --host, --shards, --first-call and --compile, found more");
  if (!shards.empty() && (linear.lossOnly || linear.apart != ApartBy::nothing))
    return userError("expected --shards with fused calls, found --loss-only or --apart");
  if (type.tf32 && (compiling || against == "copy"))
    return userError("expected --dtype tf32 with the loss's products, found none to be measured; use f32");
  for (const char *option : {"--workspace-limit", "--data", "--loss-only", "--grad-weight", "--apart"})
    if (arguments.has(option) && (compiling || options || first || against == "copy"))
      return userError(std::string("expected ") + option +
                       " with one loss's products, found others to be measured");

  const std::string target = arguments.text("--target").value_or("");
  const std::optional<std::string> file = arguments.text("--json");
  if (file) TW_RETURN_IF_ERROR(checkFile(*file));

  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  std::unique_ptr<Runtime> runtime;
  if (!first) { // which opens one of its own: how long the first of a process takes
    TW_ASSIGN_OR_RETURN(runtime, Runtime::open("", target));
    TW_RETURN_IF_ERROR(checkBaseline(linear.baseline, runtime->device()));
    fmt::print("{}\n", runtime->device().info().name);
  }
  if (compiling && shapes.empty()) shapes.push_back(kCompileShape);
  for (const ProblemShape &shape : shapes) {
    fmt::print("\n");
    TW_ASSIGN_OR_RETURN(nlohmann::ordered_json result,
                        compiling           ? benchCompile(shape, type.element, target)
                        : options           ? benchOptions(*runtime, shape, type)
                        : host              ? benchHost(shape, type, linear, target)
                        : first             ? benchFirstCall(shape, type, target)
                        : !shards.empty()   ? benchShards(*runtime, shape, type, linear, shards)
                        : against == "copy" ? benchOverLogits(*runtime, shape, type.element)
                                            : benchLinear(*runtime, shape, type, linear));
    results.push_back(std::move(result));
  }
  if (file) return writeFile(*file, results.dump(2) + "\n");
  return {};
}

} // namespace

Command benchCommand() {
  Command command;
  command.name = "bench";
  command.summary = "times beside a baseline measured in the same run";
  command.usage =
      "--shape N,H,V [--shape …] [--dtype TYPE] [--against blas|cublas|copy] [--loss-only] "
      "[--grad-weight same|f32] [--apart no|gradients|lse] [--data random|peaked] [--workspace-limit BYTES] "
      "[--target NAME] "
      "[--json FILE]\n"
      "--grid FILE [the same options]\n"
      "--shape N,H,V --each-option [--dtype TYPE] [--json FILE]\n"
      "--shape N,H,V --host [--dtype TYPE] [--loss-only] [--workspace-limit BYTES] [--json FILE]\n"
      "--shape N,H,V --first-call [--dtype TYPE] [--target NAME] [--json FILE]\n"
      "--shape N,H,V --shards R [--shards …] [--dtype TYPE] [--data random|peaked] [--grad-weight same|f32] "
      "[--workspace-limit BYTES] [--json FILE]\n"
      "--compile [--shape N,H,V] [--dtype TYPE] [--json FILE]\n"
      "--kernel NAME --shape SIZES [--shape …] [--dtype TYPE] [--target NAME] [--json FILE]";
  command.options = {
      {"--shape", "N,H,V", "rows, hidden size, classes; may be given more than once", OptionSpec::Kind::list},
      numberTypeSpec(),
      {"--against", "WHAT",
       "blas: OpenBLAS's three fp32 products; cublas: cuBLAS's three in --dtype; copy: the loss over N×V "
       "logits "
       "and a copy of them"},
      {"--grid", "FILE",
       "many problems, as tools/bench/heads.json names them: a line each, the geometric mean and the worst "
       "of "
       "their ratios"},
      {"--each-option", "", "the loss with each of its options, as a multiple of the plain one",
       OptionSpec::Kind::flag},
      {"--host", "", "the host's microseconds for a call, prepared and as one call, and its heap allocations",
       OptionSpec::Kind::flag},
      {"--shards", "R",
       "the computation of R shards of the classes, as R ranks have it, beside that of all classes; may be "
       "given more than once",
       OptionSpec::Kind::list},
      {"--workspace-limit", "BYTES",
       "device memory beside inputs and gradients, as 268435456 or 256MiB (default: no limit)"},
      {"--first-call", "",
       "opening a runtime, and its first calls, with the kernels of TILEWRIGHT_BUNDLES or of the cache",
       OptionSpec::Kind::flag},
      {"--compile", "",
       "compile times of each kernel, first call cold, with kernels on disk and from a bundle",
       OptionSpec::Kind::flag},
      {"--kernel", "NAME",
       "an example beside a copy of as many bytes, or beside cuBLAS: vector_add or dropout of N, "
       "row_softmax, "
       "layer_norm or layer_norm_gradient of ROWS,COLUMNS, matmul of M,N,K, causal attention of "
       "HEADS,POSITIONS,WIDTH"},
      {"--target", "NAME",
       "what code is for: sm_80, sm_90, …; x86-64-v3, znver4, …; default: all that the device has"},
      {"--loss-only", "", "no gradient; the baseline is the first product", OptionSpec::Kind::flag},
      {"--apart", "HOW",
       "forward and backward calls: gradients (the forward call makes them, the backward call multiplies "
       "them), lse (the "
       "backward call makes them of the saved lse), or no (default)"},
      {"--grad-weight", "TYPE", "of dW: that of --dtype (same, default), or f32"},
      {"--data", "KIND",
       "random (default), or peaked, as of a trained model: 86 % of a row's probabilities are below 2^-30 of "
       "its label's"},
      {"--json", "FILE", "the figures for programs"},
  };
  command.run = bench;
  return command;
}

} // namespace tilewright
