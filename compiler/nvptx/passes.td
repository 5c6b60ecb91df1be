#ifndef TILEWRIGHT_NVPTX_PASSES_TD
#define TILEWRIGHT_NVPTX_PASSES_TD

include "mlir/Pass/PassBase.td"

defvar Warps = Option<"warps", "warps", "int64_t", "0", "warps of a CTA; 0: chosen by the kernel's tiles">;
defvar Tf32 = Option<"tf32", "tf32", "bool", "false", "products round fp32 operands to TF32">;
defvar Stages = Option<"stages", "stages", "int64_t", "0", "of the copies that feed a product; 0: chosen">;
defvar Hopper =
    Option<"hopper", "hopper", "bool", "false", "for sm_90a, and matrices whose rows are aligned to 16 bytes">;
defvar Wgmma = Option<"wgmma", "wgmma", "bool", "false", "for sm_90a: warpgroups can multiply tiles">;
defvar SharedLimit =
    Option<"sharedLimit", "shared-limit", "int64_t", "101376", "bytes of shared memory that a CTA can have">;

def MergeLoads : Pass<"merge-loads", "::mlir::func::FuncOp"> {
  let summary = "loads of the same elements in one block become one";
  let description = [{
    Of memory that the kernel does not write. CSE leaves them, for it sees that something is written.

    Before:
    ```mlir
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    tile.store %x, %b[%j] : tensor<1x128xf32>, !tile.view<?xf32>
    %y = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    tile.store %y, %c[%j] : tensor<1x128xf32>, !tile.view<?xf32>
    ```
    After:
    ```mlir
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    tile.store %x, %b[%j] : tensor<1x128xf32>, !tile.view<?xf32>
    tile.store %x, %c[%j] : tensor<1x128xf32>, !tile.view<?xf32>
    ```
  }];
}

def PlanWarps : Pass<"plan-warps", "::mlir::func::FuncOp"> {
  let summary = "what each warp of a CTA does";
  let description = [{
    Writes `tile_gpu.warps` on a kernel: a plan with roles for a kernel that has one product which Hopper's instructions
    can multiply, or why all warps do the same. A remark says what was asked for and is not done: roles, a number of
    stages, clusters. Changes nothing else.

    Before:
    ```mlir
    func.func @product(…) attributes {tile.kernel, …} {
      %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1 : … -> tensor<128x128xf32>
      tile.store %x, %c[%i, %j] : …
    ```
    After:
    ```mlir
    func.func @product(…) attributes {tile.kernel, tile_gpu.warps =
        #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 128, boxes = 4>, …} {
      %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1 : … -> tensor<128x128xf32>
      tile.store %x, %c[%i, %j] {tile_gpu.boxed} : …
    ```
  }];
  let options = [
    Tf32, Stages, Hopper, SharedLimit,
    Option<"roles", "roles", "int64_t", "0", "0: chosen, 1: warps alike, 2: cooperative, 3: pingPong">,
    Option<"clusterCtas", "cluster-ctas", "int64_t", "0", "CTAs that share copies of an operand, 1 or 2; 0: chosen">,
    Option<"swapsOperands", "swaps-operands", "bool", "false", "the tensor cores compute the transpose of a tile">,
  ];
  let dependentDialects = ["::tilewright::nvptx::TileGpuDialect"];
}

def AssignLayouts : Pass<"assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "who holds which elements of each tile";
  let description = [{
    Writes `tile_gpu.threads` on a kernel and `tile_gpu.layout` on each op that makes a tile. Puts
    `tile_gpu.convert_layout` behind a product whose result is needed in another layout than its instructions leave it
    in. Kernels whose warps have roles (`plan-warps`) get the layouts of the warps that multiply. Changes nothing else.

    Before:
    ```mlir
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    ```
    After:
    ```mlir
    %x = tile.load %a[%j] {tile_gpu.layout = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>,
        columns = <128, class = 1, bits = [0 : 4, 1 : 8, 2 : 16, 3 : 32, 4 : 64], offsets = [0] x 4 by 1, run = 4>>}
        : !tile.view<?xf32> -> tensor<1x128xf32>
    ```
  }];
  let options = [Warps, Tf32, Wgmma];
  let dependentDialects = ["::tilewright::nvptx::TileGpuDialect"];
}

def LowerToThreads : Pass<"lower-to-threads", "::mlir::ModuleOp"> {
  let summary = "tile kernels to the program of one thread of a CTA";
  let description = [{
    One CTA runs one program of the grid. Every tile becomes registers of its threads, as `assign-layouts` wrote;
    element-wise ops become scalar ones, reductions shuffles and exchanges through shared memory, loads and stores
    predicated vector accesses with an element-wise way for what is not aligned. A kernel's parameters become
    (address, size) of a vector, (address, rows, columns, row stride) of a matrix, an i64 or an f32 each. Tiles must be
    static. Where `plan-warps` found a plan, warps have the roles that it says; one that was not asked for is left, with
    a remark, where the kernel turns out to need more shared memory than it leaves.

    ```mlir
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    %y = arith.addf %x, %x : tensor<1x128xf32>
    tile.store %y, %b[%j] : tensor<1x128xf32>, !tile.view<?xf32>
    ```
    becomes, in each of 32 threads,
    ```mlir
    %x:4 = scf.if %aligned -> (f32, f32, f32, f32) { ld.global.v4.f32 … } else { ld.global.f32 … }
    %y0 = arith.addf %x#0, %x#0 : f32
    …
    scf.if %aligned { st.global.v4.f32 … } else { st.global.f32 … }
    ```
  }];
  let options = [
    Warps, Tf32, Stages, Hopper, Wgmma, SharedLimit,
    Option<"step", "step", "int64_t", "0", "32 or 64 elements of the contracted axis in a stage; 0: chosen">,
    Option<"rasterRows", "raster-rows", "int64_t", "0", "rows of programs that a persistent grid walks column by column">,
    Option<"startsEarly", "starts-early", "bool", "false", "for sm_90 and later: a launch waits for the one before it">,
    Option<"nextIsProduct", "next-is-product", "bool", "false", "the next launch takes its places when this one's work is done">,
    Option<"runsBeside", "runs-beside", "bool", "false", "the launch before this one may go on meanwhile">,
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::tilewright::nvptx::TileGpuDialect"
  ];
}

def ExpandMathNvptx : Pass<"expand-math-nvptx", "::mlir::ModuleOp"> {
  let summary = "functions of fp32 numbers to arithmetic";
  let description = [{
        exp(x)     = 2^y · (1 + r·ln 2)     y = x·log2 e rounded, r = x·log2 e - y,  2^y by ex2.approx
        exp(a - b) = 2^y                    y = (a - b)·log2 e rounded
        rsqrt(x)   = rsqrt.approx(x)

    The first and the last with relative errors of at most 2·2⁻²³, the second (2 + 0.7·|a - b|)·2⁻²³: a difference is
    rounded to one part in 2²⁴ already, which its exponential multiplies by |a - b|. Everything else that has no
    instruction becomes a polynomial approximation.

    ```mlir
    %y = math.exp %x : f32
    ```
    becomes
    ```mlir
    %p = arith.mulf %x, %log2e : f32
    %q = math.fma %x, %log2e, %minus_p : f32
    …
    %e = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%p) : (f32) -> f32
    %y = math.fma %e, %t, %e : f32
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def LowerToLlvm : Pass<"lower-to-llvm", "::mlir::ModuleOp"> {
  let summary = "arithmetic, functions, branches and the function itself to the LLVM dialect";
  let description = [{
    What upstream does in five passes, with casts between them that a sixth takes away, in one: a third of the time.

    ```mlir
    %y = arith.addf %x, %x : f32
    cf.br ^bb1
    ```
    becomes
    ```mlir
    %y = llvm.fadd %x, %x : f32
    llvm.br ^bb1
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif
