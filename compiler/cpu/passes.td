#ifndef TILEWRIGHT_CPU_PASSES_TD
#define TILEWRIGHT_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToVector : Pass<"lower-to-vector", "::mlir::ModuleOp"> {
  let summary = "tile kernels to loops over vectors and memory";
  let description = [{
    Each kernel becomes a function of (slots, program id, scratch) made of `scf` loops, `vector`, `arith` and `math` on
    registers, and `llvm` loads and stores. Element-wise ops and reductions become fused loop nests over rows and
    strips of columns; `tile.contract` and `tile.dot` become packed, register-tiled products. Tiles must be static.

    ```mlir
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x64xf32>
    %y = arith.addf %x, %x : tensor<1x64xf32>
    tile.store %y, %b[%j] : tensor<1x64xf32>, !tile.view<?xf32>
    ```
    becomes, with 16 lanes,
    ```mlir
    scf.for %c = %c0 to %c64 step %c16 {
      %x = llvm.intr.masked.load … : vector<16xf32>
      %y = arith.addf %x, %x : vector<16xf32>
      llvm.intr.masked.store %y …
    }
    ```
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", "16", "fp32 numbers in a vector register">,
    Option<"registers", "registers", "int64_t", "32", "vector registers">,
    Option<"bf16Dot", "bf16-dot", "bool", "false", "the processor multiplies pairs of bf16 (vdpbf16ps)">,
    Option<"tiles", "tiles", "bool", "false", "the processor multiplies tiles of bf16 (AMX's tdpbf16ps)">,
    Option<"contractionStep", "contraction-step", "int64_t", "256", "elements of the contracted axis packed at once">,
    Option<"tf32", "tf32", "bool", "false", "products round fp32 operands to TF32, as tensor cores do">,
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def ExpandMath : Pass<"expand-math", "::mlir::ModuleOp"> {
  let summary = "functions of vectors to polynomials, of scalars to calls";
  let description = [{
    `math` functions of vectors become polynomial approximations, a few units in the last place from the truth;
    transcendental functions of scalars become calls of the C library. What a processor has an instruction for stays.
    An `exp` with the flag `afn` has a difference for an operand, which is below 88; it may be off by 2⁻²³ and by the
    rounding of the operand, and 0 where it is below 2⁻¹²⁶. With `scales` it takes AVX-512's instructions for the parts
    of a power of two.

    ```mlir
    %y = math.log1p %x : f32
    ```
    becomes
    ```mlir
    %y = func.call @log1pf(%x) : (f32) -> f32
    ```
  }];
  let options = [Option<"scales", "scales", "bool", "false",
      "the processor has vreduceps and vscalefps (AVX-512 DQ), and vectors of 16 numbers">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"
  ];
}

#endif
