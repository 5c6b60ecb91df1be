// The products of linear cross entropy, one configuration after another, against cuBLAS's in the same run:
//     product_bench --shape 16384,4096,128256 --forward 128x192:pingPong:4:8,128x256:cooperative --dx … --dw
//     …
// --gelu: the example's product with bias and GELU, x N×H by w H×V, against the bare product.
// A configuration is ROWSxCOLUMNS[:ROLES[:STAGES[:RASTERROWS[:CLUSTERCTAS[:STEP[:WARPS[:SWAPSOPERANDS]]]]]]].
// Every result is checked against float64 before it is timed. TILEWRIGHT_DEVICE=cpu checks on a processor,
// without cuBLAS.

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "compiler/compile.h"
#include "kernels/examples/examples.h"
#include "kernels/lce/forward_kernels.h"
#include "kernels/lce/gradient_kernels.h"
#include "runtime/runtime.h"
#include "tests/gpu/product_data.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/cublas.h"

namespace tilewright {
namespace {

using test::ProductData;
using Clock = std::chrono::steady_clock;
using Mode = lce::Accumulation::Mode;

constexpr double kTolerance16 = 5e-3, kTolerance32 = 2e-4; ///< relative errors, of results of 16 and 32 bits

struct Config {
  std::string text;
  lce::Block block;
  CompileOptions options;
};

enum class Kind { forward, loss, dx, store, add, gelu };
struct Product {
  Kind kind;
  const char *flag;
  std::vector<Config> configs;
};

struct Settings {
  test::ProductShape shape;
  ElementType element = ElementType::bf16;
  double seconds = 0.6;
  int rounds = 2;
  bool peaked = false;
  std::vector<Product> products = {{Kind::forward, "--forward", {}}, {Kind::loss, "--loss", {}},
                                   {Kind::dx, "--dx", {}},           {Kind::store, "--dw", {}},
                                   {Kind::add, "--dw-add", {}},      {Kind::gelu, "--gelu", {}}};
};

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

StatusOr<Config> parseConfig(const std::string &text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto number = [&](std::size_t i) { return i < parts.size() ? std::atoi(parts[i].c_str()) : 0; };
  Config config;
  config.text = text;
  const std::vector<std::string> sizes = split(parts.empty() ? "" : parts[0], 'x');
  if (sizes.size() != 2) return userError("expected ROWSxCOLUMNS[:…], found '" + text + "'");
  config.block = {std::atoi(sizes[0].c_str()), std::atoi(sizes[1].c_str())};
  if (parts.size() > 1) {
    TW_ASSIGN_OR_RETURN(config.options.schedule.roles, parseWarpRoles(parts[1]));
  }
  config.options.schedule.stages = number(2);
  config.options.schedule.rasterRows = number(3);
  config.options.schedule.clusterCtas = number(4);
  config.options.schedule.contractionStep = number(5);
  config.options.schedule.warps = number(6);
  config.options.schedule.swapsOperands = number(7);
  config.options.alignedMatrices = true;
  return config;
}

StatusOr<Settings> parseArguments(int count, char **arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    if (flag == "--peaked") {
      settings.peaked = true;
      continue;
    }
    if (i + 1 == count) return userError("expected a value behind " + flag);
    const std::string value = arguments[++i];
    if (flag == "--shape") {
      const std::vector<std::string> sizes = split(value, ',');
      if (sizes.size() != 3) return userError("expected --shape N,H,V, found " + value);
      settings.shape = {std::stol(sizes[0]), std::stol(sizes[1]), std::stol(sizes[2])};
    } else if (flag == "--dtype") {
      TW_ASSIGN_OR_RETURN(settings.element, parseElementType(value));
    } else if (flag == "--seconds") {
      settings.seconds = std::atof(value.c_str());
    } else if (flag == "--rounds") {
      settings.rounds = std::atoi(value.c_str());
    } else {
      bool known = false;
      for (Product &product : settings.products)
        if (flag == product.flag) {
          known = true;
          for (const std::string &text : split(value, ',')) {
            TW_ASSIGN_OR_RETURN(Config config, parseConfig(text));
            product.configs.push_back(std::move(config));
          }
        }
      if (!known) return userError("the option " + flag + " is not known");
    }
  }
  if (settings.shape.rows < 1) return userError("expected --shape N,H,V");
  return settings;
}

Kernel kernelOf(Kind kind, ElementType element, const lce::Block &block) {
  switch (kind) {
  case Kind::forward: {
    lce::ForwardSpec spec{element, element, block};
    spec.flushesSmall = true;
    if (element == ElementType::bf16) // whose rows `combine` finishes
      spec.shifts = lce::Shifts::ofRowsAlone;
    else
      spec.sums[static_cast<int>(RowSum::stored)] = true;
    return lce::forward(spec);
  }
  case Kind::loss: {
    lce::ForwardSpec spec{element, std::nullopt, block};
    spec.shifts = lce::Shifts::ofRowsAlone;
    return lce::forward(spec);
  }
  case Kind::dx:
    return lce::dHidden({element, element, element, block});
  case Kind::store:
    return lce::dWeight({element, element, {Mode::store}, block});
  case Kind::add:
    return lce::dWeight({element, ElementType::f32, {Mode::add}, block});
  case Kind::gelu:
    break;
  }
  return matmulBiasGelu(element, block.rows, block.columns);
}

bool isForward(Kind kind) { return kind == Kind::forward || kind == Kind::loss; }

/// What fills an accumulator before the kernel runs, and what poisons other results.
constexpr unsigned char kFilling = 0x40, kPoison = 0xFF;
const double kFilled = 3.00392150879; ///< the float of four such bytes

/// ‖got − want‖ / ‖want‖ over all that was added.
class Error {
public:
  void add(double got, double want) {
    difference_ += (got - want) * (got - want);
    size_ += want * want;
  }
  double relative() const { return std::sqrt(difference_ / std::max(size_, 1e-300)); }

private:
  double difference_ = 0, size_ = 0;
};

/// Both ends and some places between.
std::vector<int64_t> sample(int64_t size, int count) {
  std::mt19937_64 random(static_cast<uint64_t>(size));
  std::vector<int64_t> places = {0, size - 1};
  while (static_cast<int>(places.size()) < count)
    places.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(size)));
  return places;
}

/// A kernel of one configuration, and its arguments.
class Candidate {
public:
  Candidate(ProductData &data, Kind kind, const Config &config) : data_(data), kind_(kind), config_(config) {}

  Status prepare(StatusOr<Artifact> compiled) {
    TW_ASSIGN_OR_RETURN(Artifact artifact, std::move(compiled));
    milliseconds_ = artifact.compileMilliseconds;
    TW_RETURN_IF_ERROR(data_.device().assemble(artifact));
    for (const Parameter &parameter : artifact.parameters) {
      TW_ASSIGN_OR_RETURN(KernelArgument argument, argumentFor(parameter));
      arguments_.push_back(argument);
      if (parameter.written) outputs_[parameter.name] = std::get<TensorRef>(argument);
    }
    TW_ASSIGN_OR_RETURN(kernel_, data_.device().load(artifact));
    return {};
  }

  Status run() { return data_.device().launch(*kernel_, arguments_, nullptr); }
  double compileMilliseconds() const { return milliseconds_; }

  /// Runs it and compares a sample; errors say what is wrong.
  StatusOr<std::string> check() {
    const auto clear = [&](const TensorRef &tensor, unsigned char byte) {
      return data_.device().fill(tensor.data, byte,
                                 tensor.sizes[0] * tensor.rowStride * elementBytes(tensor.element), nullptr);
    };
    const unsigned char byte = kind_ == Kind::add ? kFilling : kPoison;
    for (const auto &[name, tensor] : outputs_)
      TW_RETURN_IF_ERROR(clear(tensor, byte));
    TW_RETURN_IF_ERROR(run());
    TW_RETURN_IF_ERROR(data_.device().synchronize(nullptr));
    for (const auto &[name, tensor] : outputs_) {
      TW_ASSIGN_OR_RETURN(const int64_t unwritten, data_.unwritten(tensor, byte));
      if (unwritten) return runtimeError(fmt::format("{} elements of {} are not written", unwritten, name));
    }
    TW_RETURN_IF_ERROR(isForward(kind_)      ? compareForward()
                       : kind_ == Kind::dx   ? compareDx()
                       : kind_ == Kind::gelu ? compareGelu()
                                             : compareDw());
    std::string text;
    for (const auto &[name, error] : errors_) {
      const bool narrow = outputs_.at(name).element != ElementType::f32;
      text += fmt::format(" {} {:.1e}", name, error.relative());
      if (!(error.relative() < (narrow ? kTolerance16 : kTolerance32))) return runtimeError("wrong:" + text);
    }
    return text;
  }

private:
  StatusOr<KernelArgument> argumentFor(const Parameter &parameter) {
    const std::string &name = parameter.name;
    if (name == "first") return KernelArgument(int64_t(0));
    if (name == "sums" || name == "tops" || name == "stored") {
      const int64_t tiles = (data_.shape().classes + config_.block.columns - 1) / config_.block.columns;
      TensorRef tensor = TensorRef::matrix(nullptr, ElementType::f32, data_.shape().rows, tiles);
      tensor.rowStride = (tiles + 3) / 4 * 4;
      TW_ASSIGN_OR_RETURN(Buffer buffer,
                          data_.device().allocate(4 * tensor.sizes[0] * tensor.rowStride, nullptr));
      tensor.data = buffer.data();
      buffers_.push_back(std::move(buffer));
      return KernelArgument(tensor);
    }
    TW_ASSIGN_OR_RETURN(const TensorRef tensor, data_.tensor(dataFor(name)));
    return KernelArgument(tensor);
  }

  /// What ProductData calls a parameter.
  std::string dataFor(const std::string &name) const {
    if (kind_ == Kind::gelu) {
      const std::map<std::string, std::string> names = {{"x", "xc"}, {"w", "wt"}, {"y", "logits"}};
      return names.count(name) ? names.at(name) : name;
    }
    if (name == "partial" || (name == "dw" && kind_ == Kind::add)) return "dw32";
    return name == "e" && isForward(kind_) ? "logits" : name;
  }

  /// Adds the errors of one row's columns [begin, begin + want.size()) of an output.
  Status compare(const std::string &name, int64_t row, int64_t begin, const std::vector<double> &want) {
    if (!outputs_.count(name)) return {};
    TW_ASSIGN_OR_RETURN(const std::vector<double> got,
                        data_.download(outputs_.at(name), row, begin, static_cast<int64_t>(want.size())));
    for (std::size_t i = 0; i < want.size(); ++i)
      errors_[name].add(got[i], want[i]);
    return {};
  }

  Status compareForward() {
    const auto [rows, hidden, classes] = data_.shape();
    const int64_t width = config_.block.columns;
    for (int64_t row : sample(rows, 6))
      for (int64_t tile : sample((classes + width - 1) / width, 4)) {
        std::vector<double> e;
        double sum = 0, top = -INFINITY;
        for (int64_t j = tile * width; j < std::min(classes, (tile + 1) * width); ++j) {
          double z = 0;
          for (int64_t h = 0; h < hidden; ++h)
            z += data_.matrix("xc", row, h) * data_.matrix("w", j, h);
          const bool isTarget = data_.vector("label", row) == static_cast<double>(j);
          e.push_back(isTarget ? 0 : lce::kUnitOfE * std::exp(z - data_.vector("shift", row)));
          sum += e.back();
          if (!isTarget) top = std::max(top, z);
        }
        TW_RETURN_IF_ERROR(compare("e", row, tile * width, e));
        TW_RETURN_IF_ERROR(compare("sums", row, tile, {sum}));
        TW_RETURN_IF_ERROR(compare("tops", row, tile, {top}));
      }
    return {};
  }

  Status compareDx() {
    const auto [rows, hidden, classes] = data_.shape();
    for (int64_t row : sample(rows, 6))
      for (int64_t h : sample(hidden, 24)) {
        double product = 0;
        for (int64_t j = 0; j < classes; ++j)
          product += data_.matrix("e", row, j) * data_.matrix("w", j, h);
        const double target = data_.matrix("w", static_cast<int64_t>(data_.vector("label", row)), h);
        TW_RETURN_IF_ERROR(compare(
            "dx", row, h, {data_.vector("scale", row) * product + data_.vector("one_hot", row) * target}));
      }
    return {};
  }

  Status compareDw() {
    const auto [rows, hidden, classes] = data_.shape();
    for (int64_t j : sample(classes, 24))
      for (int64_t h : sample(hidden, 24)) {
        double value = kind_ == Kind::store ? 0 : kFilled;
        for (int64_t row = 0; row < rows; ++row)
          value += data_.matrix("e", row, j) * data_.matrix("xs", row, h);
        const auto slot = static_cast<int64_t>(data_.vector("slot", j));
        TW_RETURN_IF_ERROR(compare("dw", j, h, {value + (slot < 0 ? 0 : data_.matrix("u", slot, h))}));
      }
    return {};
  }

  Status compareGelu() {
    const auto [rows, hidden, classes] = data_.shape();
    for (int64_t row : sample(rows, 6))
      for (int64_t j : sample(classes, 24)) {
        double t = data_.vector("bias", j);
        for (int64_t h = 0; h < hidden; ++h)
          t += data_.matrix("xc", row, h) * data_.matrix("wt", h, j);
        TW_RETURN_IF_ERROR(compare("y", row, j, {0.5 * t * (1 + std::erf(t * M_SQRT1_2))}));
      }
    return {};
  }

  ProductData &data_;
  const Kind kind_;
  const Config &config_;
  double milliseconds_ = 0;
  std::unique_ptr<LoadedKernel> kernel_;
  std::vector<KernelArgument> arguments_;
  std::vector<Buffer> buffers_;
  std::map<std::string, TensorRef> outputs_;
  std::map<std::string, Error> errors_;
};

/// The same product alone through cuBLAS, on data that is never peaked.
std::function<Status()> baselineOf(const Cublas &cublas, ProductData &data, Kind kind, bool peaked) {
  return [&cublas, &data, kind, peaked]() -> Status {
    const auto [rows, hidden, classes] = data.shape();
    const std::string exponentials = peaked ? "e_random" : "e";
    if (isForward(kind) || kind == Kind::gelu) {
      const bool byRows = isForward(kind); // w is V×H, or else H×V
      TW_ASSIGN_OR_RETURN(const TensorRef x, data.tensor("xc"));
      TW_ASSIGN_OR_RETURN(const TensorRef w, data.tensor(byRows ? "w" : "wt"));
      TW_ASSIGN_OR_RETURN(const TensorRef z, data.tensor("logits"));
      return cublas.product(false, byRows, rows, classes, hidden, x, w, z);
    }
    TW_ASSIGN_OR_RETURN(const TensorRef e, data.tensor(exponentials));
    TW_ASSIGN_OR_RETURN(const TensorRef right, data.tensor(kind == Kind::dx ? "w" : "xs"));
    TW_ASSIGN_OR_RETURN(const TensorRef out, data.tensor(kind == Kind::dx ? "dx" : "dw"));
    return kind == Kind::dx ? cublas.product(false, false, rows, hidden, classes, e, right, out)
                            : cublas.product(true, false, classes, hidden, rows, e, right, out);
  };
}

/// Milliseconds of `work`, back to back for so many seconds: the median of the second half, since the clock
/// takes a while to settle.
StatusOr<double> timeAlone(Device &device, const std::function<Status()> &work, double seconds) {
  constexpr double kSlice = 40; // milliseconds; waiting between slices costs microseconds
  TW_ASSIGN_OR_RETURN(const double once, device.time(nullptr, work));
  const int count = std::max(1, static_cast<int>(kSlice / once));
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  do {
    TW_ASSIGN_OR_RETURN(const double all, device.time(nullptr, [&]() -> Status {
      for (int i = 0; i < count; ++i)
        TW_RETURN_IF_ERROR(work());
      return {};
    }));
    times.push_back(all / count);
  } while (Clock::now() < end);
  return medianOf({times.begin() + times.size() / 2, times.end()});
}

struct Timing {
  std::vector<double> ours, ratios; ///< milliseconds; to the baseline measured before and after
};

void print(const Product &product, const Config &config, const std::string &text) {
  fmt::print("{:12} {:34} {}\n", product.flag + 2, config.text, text);
  std::fflush(stdout);
}

Status bench(const Product &product, const Settings &settings, ProductData &data, const Cublas *cublas) {
  Device &device = data.device();
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  std::vector<std::future<StatusOr<Artifact>>> artifacts;
  for (const Config &config : product.configs)
    artifacts.push_back(std::async(std::launch::async, [&, block = config.block, options = config.options] {
      return compile(kernelOf(product.kind, data.element(), block), device.target(), options, environment);
    }));
  std::vector<std::pair<const Config *, std::unique_ptr<Candidate>>> good;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < product.configs.size(); ++i) {
    const Config &config = product.configs[i];
    auto candidate = std::make_unique<Candidate>(data, product.kind, config);
    const Status ready = candidate->prepare(artifacts[i].get());
    if (!ready.ok()) {
      print(product, config, ready.message());
      continue;
    }
    StatusOr<std::string> checked = candidate->check();
    print(product, config, checked.ok() ? "right:" + *checked : checked.status().message());
    if (!checked.ok()) continue;
    good.emplace_back(&config, std::move(candidate));
  }
  if (!cublas || good.empty()) return {};

  const std::function<Status()> baseline = baselineOf(*cublas, data, product.kind, settings.peaked);
  TW_RETURN_IF_ERROR(baseline());
  const double flops = 2e-9 * settings.shape.rows * settings.shape.hidden * settings.shape.classes;
  std::vector<Timing> timings(good.size());
  TW_ASSIGN_OR_RETURN(double before, timeAlone(device, baseline, settings.seconds));
  for (int round = 0; round < settings.rounds; ++round)
    for (std::size_t i = 0; i < good.size(); ++i) {
      Candidate &candidate = *good[i].second;
      TW_ASSIGN_OR_RETURN(const double ours, timeAlone(
                                                 device, [&] { return candidate.run(); }, settings.seconds));
      TW_ASSIGN_OR_RETURN(const double after, timeAlone(device, baseline, settings.seconds));
      timings[i].ours.push_back(ours);
      timings[i].ratios.push_back(2 * ours / (before + after));
      before = after;
    }
  for (std::size_t i = 0; i < good.size(); ++i) {
    const double ours = medianOf(timings[i].ours), ratio = medianOf(timings[i].ratios);
    std::string each;
    for (double value : timings[i].ratios)
      each += fmt::format(" {:.3f}", value);
    print(
        product, *good[i].first,
        fmt::format("ratio {:.4f} ({} )  {:.3f} ms  {:.0f} TFLOP/s  cuBLAS {:.3f} ms  compiled in {:.0f} ms",
                    ratio, each, ours, flops / ours, ours / ratio, good[i].second->compileMilliseconds()));
  }
  return {};
}

Status runAll(const Settings &settings) {
  const char *name = std::getenv("TILEWRIGHT_DEVICE");
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, openDevice(name ? name : "cuda"));
  const bool onGpu = device->target().kind == TargetKind::nvptx;
  ProductData data(*device, settings.shape, settings.element, settings.peaked);
  TW_RETURN_IF_ERROR(data.tensor("label").status()); // so that the device's context is there for cuBLAS
  std::optional<Cublas> cublas;
  if (onGpu) {
    TW_ASSIGN_OR_RETURN(cublas, Cublas::load());
  }
  fmt::print("{}\n{}, N {} H {} V {}, {}{}\n", device->info().name,
             cublas ? cublas->description() : "no cuBLAS", settings.shape.rows, settings.shape.hidden,
             settings.shape.classes, elementName(settings.element),
             settings.peaked ? ", peaked; cuBLAS on random data" : "");
  for (const Product &product : settings.products)
    if (!product.configs.empty()) {
      const Status done = bench(product, settings, data, cublas ? &*cublas : nullptr);
      if (!done.ok()) return done;
    }
  return {};
}

} // namespace
} // namespace tilewright

int main(int count, char **arguments) {
  const auto settings = tilewright::parseArguments(count, arguments);
  const tilewright::Status status = settings.ok() ? tilewright::runAll(*settings) : settings.status();
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
