#include "compiler/dialect/launch_notes.h"

#include <type_traits>

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace tilewright {

using namespace mlir;

static constexpr llvm::StringLiteral kTensorMaps = "tensor_maps";

/// Each field that is a number or a truth value, and the name of its attribute.
template <typename Visit> static void forEachField(Visit visit) {
  visit("scratch_bytes", &LaunchNotes::scratchBytes);
  visit("threads", &LaunchNotes::threads);
  visit("shared_bytes", &LaunchNotes::sharedBytes);
  visit("cluster_ctas", &LaunchNotes::clusterCtas);
  visit("persistent", &LaunchNotes::persistent);
  visit("starts_early", &LaunchNotes::startsEarly);
  visit("ranks_clusters", &LaunchNotes::ranksClusters);
  visit("product", &LaunchNotes::hasProduct);
  visit("keeps_registers", &LaunchNotes::keepsRegisters);
}

void LaunchNotes::write(Operation *function) const {
  const LaunchNotes initial;
  Builder b(function->getContext());
  forEachField([&](StringRef name, auto field) {
    const auto value = this->*field;
    if (value == initial.*field) return;
    if constexpr (std::is_same_v<decltype(field), bool LaunchNotes::*>)
      function->setAttr(name, b.getUnitAttr());
    else
      function->setAttr(name, b.getI64IntegerAttr(value));
  });
  SmallVector<Attribute> maps;
  for (const TensorMap &map : tensorMaps)
    maps.push_back(b.getDenseI64ArrayAttr({map.parameter, map.boxRows, map.boxColumns, map.roundsToTf32}));
  if (!maps.empty()) function->setAttr(kTensorMaps, b.getArrayAttr(maps));
}

LaunchNotes LaunchNotes::of(Operation *function) {
  LaunchNotes notes;
  forEachField([&](StringRef name, auto field) {
    if constexpr (std::is_same_v<decltype(field), bool LaunchNotes::*>)
      notes.*field = function->hasAttr(name);
    else if (auto number = function->getAttrOfType<IntegerAttr>(name))
      notes.*field = number.getInt();
  });
  if (auto maps = function->getAttrOfType<ArrayAttr>(kTensorMaps))
    for (auto map : maps.getAsRange<DenseI64ArrayAttr>())
      notes.tensorMaps.push_back({static_cast<int>(map[0]), map[1], map[2], map[3] != 0});
  return notes;
}

} // namespace tilewright
