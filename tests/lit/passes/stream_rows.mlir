// RUN: tile-opt %s --stream-rows=block=128 --canonicalize --cse | FileCheck %s

// s = Σ x: a loop over blocks that carries the sum; columns past the end do not count.
// CHECK-LABEL: @sum
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xf32>, %[[R:[^ ]*]]: index, %[[N:[^ ]*]]: index)
func.func @sum(%v: !tile.view<?x?xf32>, %r: index, %n: index) -> tensor<8x1xf32> {
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<1x1xf32>
  // CHECK: %[[ZEROS:.*]] = tile.broadcast %[[ZERO]] : tensor<1x1xf32> -> tensor<8x1xf32>
  // CHECK: %[[S:.*]] = scf.for %[[C:.*]] = %[[C0]] to %[[N]] step %[[C128]] iter_args(%[[A:.*]] = %[[ZEROS]]) -> (tensor<8x1xf32>) {
  // CHECK:   %[[X:.*]] = tile.load %[[V]][%[[R]], %[[C]]] : !tile.view<?x?xf32> -> tensor<8x128xf32>
  // CHECK:   %[[LEFT:.*]] = arith.subi %[[N]], %[[C]] : index
  // CHECK:   %[[MIN:.*]] = arith.minsi %[[LEFT]], %[[C128]] : index
  // CHECK:   %[[POSITION:.*]] = tile.iota %[[C0]] along 1 : tensor<1x128xi32>
  // CHECK:   %[[SPLAT:.*]] = tile.splat %[[MIN]]
  // CHECK:   %[[LIMIT:.*]] = tile.broadcast %[[SPLAT]] : tensor<1x1xi32> -> tensor<1x128xi32>
  // CHECK:   %[[IN:.*]] = arith.cmpi slt, %[[POSITION]], %[[LIMIT]]
  // CHECK:   %[[INS:.*]] = tile.broadcast %[[IN]] : tensor<1x128xi1> -> tensor<8x128xi1>
  // CHECK:   %[[XIN:.*]] = arith.select %[[INS]], %[[X]], %{{.*}} : tensor<8x128xi1>, tensor<8x128xf32>
  // CHECK:   %[[B:.*]] = tile.reduce sum, %[[XIN]] along 1 : tensor<8x128xf32>
  // CHECK:   %[[T:.*]] = arith.addf %[[A]], %[[B]] : tensor<8x1xf32>
  // CHECK:   scf.yield %[[T]]
  // CHECK: }
  // CHECK: return %[[S]]
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// A width that blocks divide needs no mask.
// CHECK-LABEL: @whole_blocks
func.func @whole_blocks(%v: !tile.view<?x?xf32>, %r: index) -> tensor<8x1xf32> {
  // CHECK: scf.for
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: tile.reduce
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: scf.yield
  %c0 = arith.constant 0 : index
  %n = arith.constant 4096 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// All reductions of one sweep share its loop and its loads; each has its neutral element.
// CHECK-LABEL: @reductions
func.func @reductions(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xi32>, %r: index, %n: index)
    -> (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xi32>, tensor<8x1xi32>) {
  // CHECK-DAG: arith.constant dense<0xFF800000> : tensor<1x1xf32>
  // CHECK-DAG: arith.constant dense<0x7F800000> : tensor<1x1xf32>
  // CHECK-DAG: arith.constant dense<-2147483648> : tensor<1x1xi32>
  // CHECK-DAG: arith.constant dense<2147483647> : tensor<1x1xi32>
  // CHECK: scf.for
  // CHECK-COUNT-2: tile.load %
  // CHECK-NOT: tile.load
  // CHECK-DAG: arith.maximumf
  // CHECK-DAG: arith.minimumf
  // CHECK-DAG: arith.maxsi
  // CHECK-DAG: arith.minsi %{{.*}} : tensor<8x1xi32>
  // CHECK: scf.yield
  // CHECK-NOT: scf.for
  // CHECK: return
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %y = tile.load %w[%r, %c0] size %n : !tile.view<?x?xi32> -> tensor<8x?xi32>
  %0 = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %1 = tile.reduce min, %x along 1 : tensor<8x?xf32>
  %2 = tile.reduce max, %y along 1 : tensor<8x?xi32>
  %3 = tile.reduce min, %y along 1 : tensor<8x?xi32>
  return %0, %1, %2, %3 : tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xi32>, tensor<8x1xi32>
}

// m' = max(m, max x), s' = s·exp(m - m') + Σ exp(x - m'), with 0 for an m' of -∞ where it is subtracted.
// CHECK-LABEL: @max_sum_exp
func.func @max_sum_exp(%v: !tile.view<?x?xf32>, %r: index, %n: index) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-DAG: %[[C0:.*]] = arith.constant dense<0.000000e+00> : tensor<1x1xf32>
  // CHECK-DAG: %[[CL:.*]] = arith.constant dense<0xFF800000> : tensor<1x1xf32>
  // CHECK-DAG: %[[ZEROS:.*]] = tile.broadcast %[[C0]] : tensor<1x1xf32> -> tensor<8x1xf32>
  // CHECK-DAG: %[[LOWEST:.*]] = tile.broadcast %[[CL]] : tensor<1x1xf32> -> tensor<8x1xf32>
  // CHECK: %[[MS:.*]]:2 = scf.for {{.*}} iter_args(%[[M:.*]] = %[[LOWEST]], %[[S:.*]] = %[[ZEROS]])
  // CHECK:   %[[X:.*]] = arith.select
  // CHECK:   %[[MX:.*]] = tile.reduce max, %[[X]] along 1
  // CHECK:   %[[M1:.*]] = arith.maximumf %[[M]], %[[MX]]
  // CHECK:   %[[ISLOWEST:.*]] = arith.cmpf oeq, %[[M1]], %[[LOWEST]]
  // CHECK:   %[[SHIFT:.*]] = arith.select %[[ISLOWEST]], %[[ZEROS]], %[[M1]]
  // CHECK:   %[[DM:.*]] = arith.subf %[[M]], %[[SHIFT]]
  // CHECK:   %[[SCALE:.*]] = math.exp %[[DM]] : tensor<8x1xf32>
  // CHECK:   %[[OLD:.*]] = arith.mulf %[[S]], %[[SCALE]]
  // CHECK:   %[[SHIFTS:.*]] = tile.broadcast %[[SHIFT]] : tensor<8x1xf32> -> tensor<8x128xf32>
  // CHECK:   %[[D:.*]] = arith.subf %[[X]], %[[SHIFTS]]
  // CHECK:   %[[E:.*]] = math.exp %[[D]] fastmath<afn> : tensor<8x128xf32>
  // CHECK:   %[[NEW:.*]] = tile.reduce sum, %[[E]] along 1
  // CHECK:   %[[S1:.*]] = arith.addf %[[OLD]], %[[NEW]]
  // CHECK:   scf.yield %[[M1]], %[[S1]]
  // CHECK: return %[[MS]]#0, %[[MS]]#1
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<8x?xf32>
  return %m, %s : tensor<8x1xf32>, tensor<8x1xf32>
}

// A static tile's means the same.
// CHECK-LABEL: @static_max_sum_exp
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>)
func.func @static_max_sum_exp(%x: tensor<8x64xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-NOT: scf.for
  // CHECK: %[[M:.*]] = tile.reduce max, %[[X]] along 1
  // CHECK: %[[SHIFT:.*]] = arith.select %{{.*}}, %{{.*}}, %[[M]]
  // CHECK: %[[SHIFTS:.*]] = tile.broadcast %[[SHIFT]]
  // CHECK: %[[D:.*]] = arith.subf %[[X]], %[[SHIFTS]]
  // CHECK: %[[E:.*]] = math.exp %[[D]]
  // CHECK: %[[S:.*]] = tile.reduce sum, %[[E]] along 1
  // CHECK: return %[[M]], %[[S]]
  %m, %s = tile.max_sum_exp %x : tensor<8x64xf32>
  return %m, %s : tensor<8x1xf32>, tensor<8x1xf32>
}

// Layer norm: a sweep for the mean, one for the variance, one for the result, each with its own loads.
// CHECK-LABEL: @three_sweeps
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xf32>, %[[G:.*]]: !tile.view<?xf32>, %[[Y:.*]]: !tile.view<?x?xf32>
func.func @three_sweeps(%v: !tile.view<?x?xf32>, %g: !tile.view<?xf32>, %y: !tile.view<?x?xf32>, %r: index) {
  // CHECK: %[[N:.*]] = tile.dim %[[V]], 1
  // CHECK: scf.for
  // CHECK:   tile.load %[[V]]
  // CHECK:   tile.reduce sum
  // CHECK: }
  // CHECK: scf.for
  // CHECK:   tile.load %[[V]]
  // CHECK:   tile.reduce sum
  // CHECK: }
  // CHECK: %[[Z:.*]] = tile.narrow %[[Y]], 1 to %[[N]]
  // CHECK: scf.for %[[C:[^ ]*]] =
  // CHECK:   tile.load %[[V]]
  // CHECK:   tile.load %[[G]][%[[C]]] : !tile.view<?xf32> -> tensor<1x128xf32>
  // CHECK:   tile.broadcast %{{.*}} : tensor<1x128xf32> -> tensor<8x128xf32>
  // CHECK:   tile.store %{{.*}}, %[[Z]][%{{.*}}, %[[C]]] : tensor<8x128xf32>, !tile.view<?x?xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %k = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %scale = tile.load %g[%c0] size %k : !tile.view<?xf32> -> tensor<1x?xf32>
  %m = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %d = arith.subf %x, %ms : tensor<8x?xf32>
  %q = arith.mulf %d, %d : tensor<8x?xf32>
  %s = tile.reduce sum, %q along 1 : tensor<8x?xf32>
  %t = math.rsqrt %s : tensor<8x1xf32>
  %ts = tile.broadcast %t size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %u = arith.mulf %d, %ts : tensor<8x?xf32>
  %scales = tile.broadcast %scale : tensor<1x?xf32> -> tensor<8x?xf32>
  %z = arith.mulf %u, %scales : tensor<8x?xf32>
  tile.store %z, %y[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// Rows of two widths: a loop each. Columns that begin elsewhere keep their offset, and what is stored ends with the row.
// CHECK-LABEL: @two_widths
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xf32>, %[[R:[^ ]*]]: index, %[[J:[^ ]*]]: index, %[[N:[^ ]*]]: index, %[[K:[^ ]*]]: index)
func.func @two_widths(%v: !tile.view<?x?xf32>, %r: index, %j: index, %n: index, %k: index) -> tensor<8x1xf32> {
  // CHECK: scf.for %{{.*}} to %[[N]]
  // CHECK: %[[END:.*]] = arith.addi %[[J]], %[[K]]
  // CHECK: %[[CUT:.*]] = tile.narrow %[[V]], 1 to %[[END]]
  // CHECK: scf.for %[[C:[^ ]*]] = %{{.*}} to %[[K]]
  // CHECK:   %[[P:.*]] = tile.iota %[[C]] along 1 : tensor<1x128xi32>
  // CHECK:   %[[AT:.*]] = arith.addi %[[C]], %[[J]]
  // CHECK:   tile.store %[[P2:.*]], %[[CUT]][%[[R]], %[[AT]]]
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  %p = tile.iota %c0 along 1 size %k : tensor<1x?xi32>
  %f = arith.sitofp %p : tensor<1x?xi32> to tensor<1x?xf32>
  tile.store %f, %v[%r, %j] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return %s : tensor<8x1xf32>
}

// Rows that are numbered, sums of columns, sums in memory.
// CHECK-LABEL: @rows_and_columns
func.func @rows_and_columns(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %b: !tile.view<?xf32>,
                            %i: tensor<8x1xi32>, %n: index) {
  // CHECK: scf.for %[[C:[^ ]*]] =
  // CHECK:   %[[X:.*]] = tile.load_rows %{{.*}}[%{{.*}}, %[[C]]] : !tile.view<?x?xf32>, tensor<8x1xi32> -> tensor<8x128xf32>
  // CHECK:   %[[S:.*]] = tile.reduce sum, %[[X]] along 0 : tensor<8x128xf32>
  // CHECK:   tile.reduce_add %[[S]], %{{.*}}[%[[C]]] : tensor<1x128xf32>, !tile.view<?xf32>
  // CHECK:   tile.store_rows %[[X]], %{{.*}}[%{{.*}}, %[[C]]] : tensor<8x128xf32>
  %c0 = arith.constant 0 : index
  %x = tile.load_rows %v[%i, %c0] size %n : !tile.view<?x?xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 0 : tensor<8x?xf32>
  tile.reduce_add %s, %b[%c0] : tensor<1x?xf32>, !tile.view<?xf32>
  tile.store_rows %x, %w[%i, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>, tensor<8x1xi32>
  return
}

// In the body of a loop, with a static tile carried.
// CHECK-LABEL: @in_a_loop
func.func @in_a_loop(%v: !tile.view<?x?xf32>, %rows: index, %n: index, %zero: tensor<8x1xf32>) -> tensor<8x1xf32> {
  // CHECK: scf.for %[[R:[^ ]*]] = {{.*}} iter_args(%[[A:.*]] = %{{.*}})
  // CHECK:   %[[S:.*]] = scf.for %[[C:[^ ]*]] =
  // CHECK:     tile.load %{{.*}}[%[[R]], %[[C]]]
  // CHECK:   }
  // CHECK:   %[[T:.*]] = arith.addf %[[A]], %[[S]]
  // CHECK:   scf.yield %[[T]]
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %t = scf.for %r = %c0 to %rows step %c8 iter_args(%a = %zero) -> (tensor<8x1xf32>) {
    %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
    %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
    %b = arith.addf %a, %s : tensor<8x1xf32>
    scf.yield %b : tensor<8x1xf32>
  }
  return %t : tensor<8x1xf32>
}

// A branch that uses a row from outside loads it for itself; there it may be overwritten.
// CHECK-LABEL: @row_used_in_a_branch
func.func @row_used_in_a_branch(%v: !tile.view<?x?xf32>, %r: index, %c: i1) -> tensor<8x1xf32> {
  // CHECK: %[[S:.*]] = scf.for
  // CHECK: scf.if
  // CHECK-NEXT: scf.for
  // CHECK-NEXT:   %[[X:.*]] = tile.load
  // CHECK-NEXT:   %[[SS:.*]] = tile.broadcast %[[S]]
  // CHECK-NEXT:   %[[Y:.*]] = arith.divf %[[X]], %[[SS]]
  // CHECK-NEXT:   tile.store %[[Y]]
  // CHECK: return %[[S]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  scf.if %c {
    %ss = tile.broadcast %s size %n : tensor<8x1xf32> -> tensor<8x?xf32>
    %y = arith.divf %x, %ss : tensor<8x?xf32>
    tile.store %y, %v[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  }
  return %s : tensor<8x1xf32>
}

// Without long tiles there is nothing to do, and a long tile without users is nothing.
// CHECK-LABEL: @nothing_long
// CHECK-NEXT: tile.reduce sum
// CHECK-NEXT: return
func.func @nothing_long(%x: tensor<8x64xf32>, %v: !tile.view<?x?xf32>, %n: index) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %unused = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x64xf32>
  return %s : tensor<8x1xf32>
}
