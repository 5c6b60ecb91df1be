// The whole list on the kernels of a cross entropy over logits in memory, as their author would write them.
// RUN: tile-opt %s --canonicalize --cse --gather-to-select --decompose-softmax --cse --online-softmax --stream-rows \
// RUN:   --canonicalize --cse --loop-invariant-code-motion | FileCheck %s

// Forward: the target is loaded by itself; one loop loads each logit once, holds and stores no row, and carries the
// maximum and the sum.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[LOGITS:[^:]*]]: !tile.view<?x?xbf16>
// CHECK-NOT: tensor<8x?x
// CHECK-NOT: tile.store
// CHECK: tile.load_elements %[[LOGITS]]
// CHECK: scf.for %[[C:[^ ]*]] = {{.*}} iter_args({{.*}}) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
// CHECK-NOT: tile.store
// CHECK: tile.load %[[LOGITS]][%{{.*}}, %[[C]]] : !tile.view<?x?xbf16> -> tensor<8x128xbf16>
// CHECK-NOT: tile.load
// CHECK-COUNT-1: math.exp %{{.*}} : tensor<8x128xf32>
// CHECK-NOT: math.exp %{{.*}} : tensor<8x128xf32>
// CHECK-NOT: tile.store
// CHECK: scf.yield
// CHECK-NOT: scf.for
// CHECK-NOT: tile.load
// CHECK: tile.store %{{.*}} : tensor<8x1xf32>, !tile.view<?xf32>
// CHECK: tile.store %{{.*}} : tensor<8x1xf32>, !tile.view<?xf32>
// CHECK-NOT: tile.store
func.func @forward(%logits: !tile.view<?x?xbf16> {tile.name = "logits"}, %labels: !tile.view<?xi32> {tile.name = "labels"},
                   %loss: !tile.view<?xf32> {tile.name = "loss", tile.written}, %lse: !tile.view<?xf32> {tile.name = "lse", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 8>]} {
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0 : index
  %p = tile.program_id 0
  %i = arith.muli %p, %c8 : index
  %n = tile.dim %logits, 1 : !tile.view<?x?xbf16>
  %label = tile.load %labels[%i] : !tile.view<?xi32> -> tensor<8x1xi32>
  %raw = tile.load %logits[%i, %zero] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  %x = arith.extf %raw : tensor<8x?xbf16> to tensor<8x?xf32>
  %logp = tile.log_softmax %x : tensor<8x?xf32>
  %picked = tile.gather %logp[%label] : tensor<8x?xf32>, tensor<8x1xi32>
  %negative = arith.negf %picked : tensor<8x1xf32>
  tile.store %negative, %loss[%i] : tensor<8x1xf32>, !tile.view<?xf32>
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %mb = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %d = arith.subf %x, %mb : tensor<8x?xf32>
  %e = math.exp %d : tensor<8x?xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x?xf32>
  %ls = math.log %s : tensor<8x1xf32>
  %l = arith.addf %m, %ls : tensor<8x1xf32>
  tile.store %l, %lse[%i] : tensor<8x1xf32>, !tile.view<?xf32>
  return
}

// Backward, in place, as a derivative is written down: the one-hot row and its sum come from a scatter. The row is loaded
// once for its maximum and sum, and once more where it is overwritten.
// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%[[LOGITS:[^:]*]]: !tile.view<?x?xbf16>
// CHECK-NOT: tensor<8x?x
// CHECK: scf.for %{{.*}} iter_args({{.*}}) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
// CHECK-COUNT-1: tile.load %[[LOGITS]]
// CHECK-NOT: tile.load
// CHECK-NOT: tile.store
// CHECK: scf.yield
// CHECK: scf.for %[[C:[^ ]*]] =
// CHECK-NOT: iter_args
// CHECK: tile.load %[[LOGITS]][%[[I:.*]], %[[C]]]
// CHECK-NOT: tile.load
// CHECK: arith.cmpi eq
// CHECK: tile.store %{{.*}}, %[[LOGITS]][%[[I]], %[[C]]] : tensor<8x128xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @backward(%logits: !tile.view<?x?xbf16> {tile.name = "logits", tile.written}, %labels: !tile.view<?xi32> {tile.name = "labels"},
                    %grad: !tile.view<?xf32> {tile.name = "grad"})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 8>]} {
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0 : index
  %p = tile.program_id 0
  %i = arith.muli %p, %c8 : index
  %n = tile.dim %logits, 1 : !tile.view<?x?xbf16>
  %label = tile.load %labels[%i] : !tile.view<?xi32> -> tensor<8x1xi32>
  %g = tile.load %grad[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %raw = tile.load %logits[%i, %zero] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  %x = arith.extf %raw : tensor<8x?xbf16> to tensor<8x?xf32>
  %logp = tile.log_softmax %x : tensor<8x?xf32>
  %prob = math.exp %logp : tensor<8x?xf32>
  %ng = arith.negf %g : tensor<8x1xf32>
  %hot = tile.scatter %ng at %label size %n : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  %total = tile.reduce sum, %hot along 1 : tensor<8x?xf32>
  %tb = tile.broadcast %total size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %scaled = arith.mulf %prob, %tb : tensor<8x?xf32>
  %dx = arith.subf %hot, %scaled : tensor<8x?xf32>
  %out = arith.truncf %dx : tensor<8x?xf32> to tensor<8x?xbf16>
  tile.store %out, %logits[%i, %zero] : tensor<8x?xbf16>, !tile.view<?x?xbf16>
  return
}

// Backward from a stored lse: nothing hangs on the row but its own elements, so there is one sweep.
// CHECK-LABEL: func.func @backward_from_lse
// CHECK-COUNT-1: scf.for
// CHECK-COUNT-1: tile.load %{{.*}} -> tensor<8x128xbf16>
// CHECK-NOT: tile.load
// CHECK: tile.store
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @backward_from_lse(%logits: !tile.view<?x?xbf16> {tile.name = "logits", tile.written},
                             %labels: !tile.view<?xi32> {tile.name = "labels"}, %lse: !tile.view<?xf32> {tile.name = "lse"},
                             %grad: !tile.view<?xf32> {tile.name = "grad"})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 8>]} {
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0 : index
  %p = tile.program_id 0
  %i = arith.muli %p, %c8 : index
  %n = tile.dim %logits, 1 : !tile.view<?x?xbf16>
  %label = tile.load %labels[%i] : !tile.view<?xi32> -> tensor<8x1xi32>
  %g = tile.load %grad[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %l = tile.load %lse[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %raw = tile.load %logits[%i, %zero] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  %x = arith.extf %raw : tensor<8x?xbf16> to tensor<8x?xf32>
  %ls = tile.broadcast %l size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %d = arith.subf %x, %ls : tensor<8x?xf32>
  %prob = math.exp %d : tensor<8x?xf32>
  %hot = tile.scatter %g at %label size %n : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  %total = tile.reduce sum, %hot along 1 : tensor<8x?xf32>
  %tb = tile.broadcast %total size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %scaled = arith.mulf %prob, %tb : tensor<8x?xf32>
  %dx = arith.subf %scaled, %hot : tensor<8x?xf32>
  %out = arith.truncf %dx : tensor<8x?xf32> to tensor<8x?xbf16>
  tile.store %out, %logits[%i, %zero] : tensor<8x?xbf16>, !tile.view<?x?xbf16>
  return
}
