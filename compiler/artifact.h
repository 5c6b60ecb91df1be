#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/element_type.h"

namespace tilewright {

/// One parameter of a kernel, in the order of its declaration.
struct Parameter {
  enum class Kind {
    view,    ///< a tensor of rank 1 or 2: base, sizes, stride of its rows in elements
    index,   ///< a 64-bit integer
    float32, ///< an fp32 number
  };
  Kind kind = Kind::view;
  std::string name;
  ElementType element = ElementType::f32; ///< of a view
  int rank = 0;                           ///< of a view
  bool written = false;                   ///< of a view: the kernel stores to it
};

/// Programs along one grid axis: ceil(extent / block), where extent is dimension `dim` of view parameter
/// `parameter`, or the value of an index parameter.
struct GridAxis {
  int parameter = 0;
  int dim = 0;
  int64_t block = 1;
};

/// How a kernel reads or writes boxes of a matrix by TMA: 128-byte swizzle, zeros beyond the matrix's end.
struct TensorMap {
  int parameter = 0;         ///< the view, of rank 2
  int64_t boxRows = 0;       ///< 1 to 256
  int64_t boxColumns = 0;    ///< 128 bytes
  bool roundsToTf32 = false; ///< fp32 that is read is rounded to TF32, to nearest, ties to even
};

/// A compiled kernel: what a device needs in order to load and launch it, and nothing that refers to the
/// compiler.
struct Artifact {
  std::string kernel; ///< the symbol to launch
  std::string target; ///< Target::str() it was compiled for
  std::vector<Parameter> parameters;
  std::vector<GridAxis> grid;        ///< 0 to 3 axes; axis 0 varies fastest
  int64_t scratchBytes = 0;          ///< CPU: private memory of one running program, 64-byte aligned
  int threads = 0;                   ///< nvptx: of one program, a multiple of 32
  int64_t sharedBytes = 0;           ///< nvptx: dynamic shared memory of one program
  std::vector<TensorMap> tensorMaps; ///< nvptx: further parameters of 128 bytes each, behind the others
  int clusterCtas = 1;        ///< nvptx: CTAs of a cluster: of a persistent kernel neighbours along x, of
                              ///< others those along y that run one program together
  bool persistent = false;    ///< nvptx: one CTA a multiprocessor, which takes programs in turn
  bool startsEarly = false;   ///< nvptx: waits itself for the launch before it in its stream, and so may be
                              ///< launched before that one is done
  bool ranksClusters = false; ///< nvptx: a further parameter ahead of those of the tensor maps, the address
                              ///< of an i32 for each cluster of the launch: the first program that it takes.
                              ///< Null: its own number
  std::string assembly;       ///< PTX for nvptx; empty for the CPU
  std::string binary;         ///< relocatable object for the CPU, cubin for nvptx (may be empty)
  double compileMilliseconds = 0;
};

} // namespace tilewright
