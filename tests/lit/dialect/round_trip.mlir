// Every operation prints as it reads.
// RUN: tile-opt %s | tile-opt | FileCheck %s
// RUN: tile-opt %s --mlir-print-op-generic | tile-opt | FileCheck %s

// CHECK-LABEL: func.func @kernel(
// CHECK-SAME: %[[X:.*]]: !tile.view<?x?xbf16> {tile.name = "x"}
// CHECK-SAME: attributes {tile.grid = [array<i64: 0, 0, 8>, array<i64: 2, 0, 64>], tile.kernel}
func.func @kernel(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %v: !tile.view<?xf32> {tile.name = "v", tile.written},
                  %n: index {tile.name = "n"}, %s: f32 {tile.name = "s"})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 8>, array<i64: 2, 0, 64>]} {
  // CHECK: tile.program_id 0
  %p = tile.program_id 0
  // CHECK: tile.dim %[[X]], 1 : !tile.view<?x?xbf16>
  %d = tile.dim %x, 1 : !tile.view<?x?xbf16>
  // CHECK: tile.narrow %[[X]], 0 to %{{.*}} : !tile.view<?x?xbf16>
  %y = tile.narrow %x, 0 to %n : !tile.view<?x?xbf16>
  // CHECK: tile.reinterpret %[[X]] : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %f = tile.reinterpret %x : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  // CHECK: tile.reinterpret %{{.*}} : !tile.view<?xf32> to !tile.view<?xi64>
  %l = tile.reinterpret %v : !tile.view<?xf32> to !tile.view<?xi64>
  // CHECK: tile.interior %{{.*}} step 64 of %[[X]], %{{.*}} : !tile.view<?x?xbf16>, !tile.view<?xf32>
  %k = tile.interior %d step 64 of %x, %v : !tile.view<?x?xbf16>, !tile.view<?xf32>
  return
}

// CHECK-LABEL: func.func @integers(
func.func @integers(%a: tensor<8x64xi32>, %b: tensor<8x?xi32>) {
  // CHECK: tile.mul_high %{{.*}}, %{{.*}} : tensor<8x64xi32>
  %0 = tile.mul_high %a, %a : tensor<8x64xi32>
  // CHECK: tile.mul_high %{{.*}}, %{{.*}} : tensor<8x?xi32>
  %1 = tile.mul_high %b, %b : tensor<8x?xi32>
  return
}

// CHECK-LABEL: func.func @memory(
func.func @memory(%x: !tile.view<?x?xbf16>, %v: !tile.view<?xi64>, %f: !tile.view<?x?xf32>, %i: index, %j: index,
                  %r: tensor<8x1xi32>) {
  // CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<?x?xbf16> -> tensor<8x64xbf16>
  %0 = tile.load %x[%i, %j] : !tile.view<?x?xbf16> -> tensor<8x64xbf16>
  // CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}] size %{{.*}} : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  %1 = tile.load %x[%i, %j] size %i : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  // CHECK: tile.load %{{.*}}[%{{.*}}] : !tile.view<?xi64> -> tensor<8x1xi64>
  %2 = tile.load %v[%i] : !tile.view<?xi64> -> tensor<8x1xi64>
  // CHECK: tile.load %{{.*}}[%{{.*}}] size %{{.*}} : !tile.view<?xi64> -> tensor<1x?xi64>
  %3 = tile.load %v[%i] size %i : !tile.view<?xi64> -> tensor<1x?xi64>
  // CHECK: tile.load_rows %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x64xbf16>
  %4 = tile.load_rows %x[%r, %j] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x64xbf16>
  // CHECK: tile.load_rows %{{.*}}[%{{.*}}] : !tile.view<?xi64>, tensor<8x1xi32> -> tensor<8x1xi64>
  %5 = tile.load_rows %v[%r] : !tile.view<?xi64>, tensor<8x1xi32> -> tensor<8x1xi64>
  // CHECK: tile.load_rows %{{.*}}[%{{.*}}, %{{.*}}] size %{{.*}} : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x?xbf16>
  %8 = tile.load_rows %x[%r, %j] size %i : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x?xbf16>
  // CHECK: tile.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x1xbf16>
  %6 = tile.load_elements %x[%i, %r] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x1xbf16>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : tensor<8x64xbf16>, !tile.view<?x?xbf16>
  tile.store %0, %x[%i, %j] : tensor<8x64xbf16>, !tile.view<?x?xbf16>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] : tensor<8x1xi64>, !tile.view<?xi64>
  tile.store %2, %v[%i] : tensor<8x1xi64>, !tile.view<?xi64>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] {interior} : tensor<8x64xbf16>, !tile.view<?x?xbf16>
  tile.store %0, %x[%i, %j] {interior} : tensor<8x64xbf16>, !tile.view<?x?xbf16>
  // CHECK: tile.store_rows %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : tensor<8x64xbf16>, !tile.view<?x?xbf16>, tensor<8x1xi32>
  tile.store_rows %4, %x[%r, %j] : tensor<8x64xbf16>, !tile.view<?x?xbf16>, tensor<8x1xi32>
  // CHECK: tile.store_rows %{{.*}}, %{{.*}}[%{{.*}}] : tensor<8x1xi64>, !tile.view<?xi64>, tensor<8x1xi32>
  tile.store_rows %5, %v[%r] : tensor<8x1xi64>, !tile.view<?xi64>, tensor<8x1xi32>
  %7 = tile.load %f[%i, %j] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  // CHECK: tile.reduce_add %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : tensor<8x64xf32>, !tile.view<?x?xf32>
  tile.reduce_add %7, %f[%i, %j] : tensor<8x64xf32>, !tile.view<?x?xf32>
  return
}

// CHECK-LABEL: func.func @values(
func.func @values(%x: !tile.view<?x?xbf16>, %f: !tile.view<?x?xf32>, %i: index, %s: f32, %c: i1, %r: tensor<8x1xi32>,
                  %a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %v: tensor<8x1xf32>, %w: tensor<8x?xf32>) {
  // CHECK: tile.contract %{{.*}}[%{{.*}}] contracting 1, %{{.*}}[%{{.*}}] contracting 0 : !tile.view<?x?xbf16>, !tile.view<?x?xf32> -> tensor<8x16xf32>
  %0 = tile.contract %x[%i] contracting 1, %f[%i] contracting 0 : !tile.view<?x?xbf16>, !tile.view<?x?xf32> -> tensor<8x16xf32>
  // CHECK: tile.contract %{{.*}}[%{{.*}}] contracting 1, %{{.*}}[%{{.*}}] contracting 0 part %{{.*}} of 3 : !tile.view<?x?xbf16>, !tile.view<?x?xf32> -> tensor<8x16xf32>
  %third = tile.contract %x[%i] contracting 1, %f[%i] contracting 0 part %i of 3 : !tile.view<?x?xbf16>, !tile.view<?x?xf32> -> tensor<8x16xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<16x32xf32>
  %1 = tile.dot %a, %b : tensor<8x16xf32>, tensor<16x32xf32>
  // CHECK: tile.iota %{{.*}} along 0 : tensor<8x1xi32>
  %2 = tile.iota %i along 0 : tensor<8x1xi32>
  // CHECK: tile.iota %{{.*}} along 1 size %{{.*}} : tensor<1x?xi32>
  %3 = tile.iota %i along 1 size %i : tensor<1x?xi32>
  // CHECK: tile.broadcast %{{.*}} : tensor<8x1xf32> -> tensor<8x64xf32>
  %4 = tile.broadcast %v : tensor<8x1xf32> -> tensor<8x64xf32>
  // CHECK: tile.broadcast %{{.*}} size %{{.*}} : tensor<8x1xf32> -> tensor<8x?xf32>
  %5 = tile.broadcast %v size %i : tensor<8x1xf32> -> tensor<8x?xf32>
  // CHECK: tile.transpose %{{.*}} : tensor<8x16xf32>
  %6 = tile.transpose %a : tensor<8x16xf32>
  // CHECK: tile.splat %{{.*}} : index -> tensor<1x1xi32>
  %7 = tile.splat %i : index -> tensor<1x1xi32>
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<1x1xf32>
  %8 = tile.splat %s : f32 -> tensor<1x1xf32>
  // CHECK: tile.splat %{{.*}} : i1 -> tensor<1x1xi1>
  %9 = tile.splat %c : i1 -> tensor<1x1xi1>
  // CHECK: tile.extract %{{.*}} : tensor<1x1xi32>
  %10 = tile.extract %7 : tensor<1x1xi32>
  // CHECK: tile.extract %{{.*}} : tensor<1x1xi1>
  %11 = tile.extract %9 : tensor<1x1xi1>
  // CHECK: tile.reduce sum, %{{.*}} along 1 : tensor<8x?xf32>
  %12 = tile.reduce sum, %w along 1 : tensor<8x?xf32>
  // CHECK: tile.reduce max, %{{.*}} along 0 : tensor<8x16xf32>
  %13 = tile.reduce max, %a along 0 : tensor<8x16xf32>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] : tensor<8x?xf32>, tensor<8x1xi32>
  %14 = tile.gather %w[%r] : tensor<8x?xf32>, tensor<8x1xi32>
  // CHECK: tile.scatter %{{.*}} at %{{.*}} : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x16xf32>
  %15 = tile.scatter %v at %r : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x16xf32>
  // CHECK: tile.scatter %{{.*}} at %{{.*}} size %{{.*}} : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  %16 = tile.scatter %v at %r size %i : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  // CHECK: tile.log_softmax %{{.*}} : tensor<8x?xf32>
  %17 = tile.log_softmax %w : tensor<8x?xf32>
  // CHECK: %{{.*}}, %{{.*}} = tile.max_sum_exp %{{.*}} : tensor<8x?xf32>
  %m, %e = tile.max_sum_exp %w : tensor<8x?xf32>
  // The results' inferred types.
  // CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<8x1xf32>
  %18 = arith.addf %m, %12 : tensor<8x1xf32>
  // CHECK: arith.index_cast %{{.*}} : index to i64
  %19 = arith.index_cast %10 : index to i64
  return
}

// CHECK-LABEL: @partners
func.func @partners(%x: tensor<1x1xf32>, %n: tensor<1x1xi32>) attributes {tile.partners = 2 : i64} {
  // CHECK: tile.partner
  %p = tile.partner
  // CHECK: tile.on_chip 2 : !tile.view<?xf32>
  %v = tile.on_chip 2 : !tile.view<?xf32>
  %w = tile.on_chip 2 : !tile.view<?xi32>
  // CHECK: tile.exchange %{{.*}}, %{{.*}} to %{{.*}}, %{{.*}} : tensor<1x1xf32>, tensor<1x1xi32> to !tile.view<?xf32>, !tile.view<?xi32>
  tile.exchange %x, %n to %v, %w : tensor<1x1xf32>, tensor<1x1xi32> to !tile.view<?xf32>, !tile.view<?xi32>
  // CHECK: tile.exchange
  tile.exchange
  return
}
