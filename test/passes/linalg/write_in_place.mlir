// RUN: padc-opt -p write-in-place %s | filecheck %s

// The sum of two products writes where the later one was.
// CHECK-LABEL: func.func @residual
// CHECK:         %[[X:.*]] = linalg.matmul
// CHECK:         %[[Y:.*]] = linalg.matmul
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%[[X]] : tensor<2x2xf32>) outs(%[[Y]] : tensor<2x2xf32>)
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[B]], %[[A]] : f32
// CHECK-NEXT:      %[[T:.*]] = arith.mulf %[[S]], %[[B]] : f32
// CHECK-NEXT:      linalg.yield %[[T]] : f32
func.func @residual(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %x = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%b : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%b, %b : tensor<2x2xf32>, tensor<2x2xf32>) outs(%b : tensor<2x2xf32>) -> tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y, %x, %y : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    %t = arith.mulf %s, %r : f32
    linalg.yield %t : f32
  } -> tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}

// Another op reads the product; the elements are turned; it is an argument; it has
// another type: each writes a tensor of its own.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-4: outs(%e
func.func @kept(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf64>) {
  %e = tensor.empty() : tensor<2x2xf32>
  %e2 = tensor.empty() : tensor<2x2xf64>
  %x = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%a, %x : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = linalg.matmul ins(%x, %x : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%z : tensor<2x2xf32>) outs(%e2 : tensor<2x2xf64>) {
  ^bb0(%p: f32, %o: f64):
    %r = arith.extf %p : f32 to f64
    linalg.yield %r : f64
  } -> tensor<2x2xf64>
  return %x, %0, %1, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf64>
}

// The order of the inputs does not matter.
// CHECK-LABEL: func.func @turned_round
// CHECK:         %[[X:.*]] = linalg.matmul
// CHECK:         %[[Y:.*]] = linalg.matmul
// CHECK:         ins(%[[X]] : tensor<2x2xf32>) outs(%[[Y]] : tensor<2x2xf32>)
func.func @turned_round(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %x = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%b : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%b, %b : tensor<2x2xf32>, tensor<2x2xf32>) outs(%b : tensor<2x2xf32>) -> tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}

// The op reads what it writes to; the input is no sum, and not of linalg; the sum is
// outside of the branch that the op is in.
// CHECK-LABEL: func.func @kept_too
// CHECK:         linalg.generic {{.*}} ins(%x {{.*}} outs(%e
// CHECK:         linalg.generic {{.*}} ins(%e {{.*}} outs(%e
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} outs(%e
// CHECK:         scf.if
// CHECK:           linalg.generic {{.*}} ins(%y {{.*}} outs(%e
func.func @kept_too(%a: tensor<2x2xf32>, %c: i1) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %e = tensor.empty() : tensor<2x2xf32>
  %x = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%e : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<2x2xf32>
  %3 = scf.if %c -> (tensor<2x2xf32>) {
    %4 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
    ^bb0(%p: f32, %o: f32):
      %r = arith.negf %p : f32
      linalg.yield %r : f32
    } -> tensor<2x2xf32>
    scf.yield %4 : tensor<2x2xf32>
  } else {
    scf.yield %a : tensor<2x2xf32>
  }
  return %0, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// Sums of products by Winograd's algorithm.
// CHECK-LABEL: func.func @winograd
// CHECK:         %[[Y:.*]] = tcp.winograd_conv
// CHECK:         linalg.generic {{.*}} outs(%[[Y]] :
func.func @winograd(%x: tensor<1x2x5x6x4xf32>, %u: tensor<4x4x1x2x4x8xf32>, %o: tensor<1x1x3x4x8xf32>) -> tensor<1x1x3x4x8xf32> {
  %y = tcp.winograd_conv %x, %u outs %o tile 2 block 4 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>
  %e = tensor.empty() : tensor<1x1x3x4x8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>, affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x1x3x4x8xf32>) outs(%e : tensor<1x1x3x4x8xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<1x1x3x4x8xf32>
  return %z : tensor<1x1x3x4x8xf32>
}
