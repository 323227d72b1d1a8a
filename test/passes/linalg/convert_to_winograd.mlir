// RUN: padc-opt -p convert-to-winograd,drop-unused-weights %s | filecheck %s
// RUN: padc-opt -p convert-to-winograd{tile=2} %s | filecheck %s --check-prefix=TWO

// The kernel that is packed for the direct convolution is no argument any more.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     tensor<4x4x3x3x16x16xf32>
// CHECK-SAME:    %[[U:[^:]*]]: tensor<6x6x4x4x16x16xf32> {padc.weight = "w", padc.tile = 4 : i64, padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 4, 5, 0, 2, 3, 1>})
// CHECK:         tcp.winograd_conv %{{[^,]*}}, %[[U]] outs %{{.*}} tile 4 block 28
// TWO-LABEL:   func.func @main(
// TWO-NOT:     tile 4
// TWO:         tcp.winograd_conv {{.*}} tile 2
func.func @main(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// Between buffers, it stays.
// CHECK-LABEL: func.func @buffers(
// CHECK-NOT:     tcp.winograd_conv
func.func @buffers(%x: memref<1x4x58x58x16xf32>, %w: memref<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: memref<1x4x56x56x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : memref<1x4x58x58x16xf32>, memref<4x4x3x3x16x16xf32>) outs(%y : memref<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// No weight that is bound once.
// CHECK-LABEL: func.func @argument
// CHECK-NOT:     tcp.winograd_conv
func.func @argument(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32>, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// A weight that is not packed when it is bound.
// CHECK-LABEL: func.func @not_packed
// CHECK-NOT:     tcp.winograd_conv
func.func @not_packed(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w"}, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// Two convolutions take one transform, the third one the kernel itself.
// CHECK-LABEL: func.func @shared(
// CHECK-SAME:    %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w"
// CHECK-SAME:    %[[U:[^:]*]]: tensor<6x6x4x4x16x16xf32> {padc.weight = "w", padc.tile = 4
// CHECK-NOT:     padc.tile
// CHECK:         tcp.winograd_conv %{{[^,]*}}, %[[U]] outs
// CHECK:         tcp.winograd_conv %{{[^,]*}}, %[[U]] outs
// CHECK:         linalg.generic {{.*}} ins(%v, %w :
func.func @shared(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>, %v: tensor<1x4x113x113x16xf32>) -> (tensor<1x4x56x56x16xf32>, tensor<1x4x56x56x16xf32>, tensor<1x4x56x56x16xf32>) {
  %z0 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  %z1 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%z0 : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  %z2 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y * 2 + i, x * 2 + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%v, %w : tensor<1x4x113x113x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z0, %z1, %z2 : tensor<1x4x56x56x16xf32>, tensor<1x4x56x56x16xf32>, tensor<1x4x56x56x16xf32>
}

// By tiles of two sizes.
// CHECK-LABEL: func.func @two_tiles(
// CHECK-NOT:     tensor<4x4x3x3x16x16xf32>
// CHECK:         tcp.winograd_conv {{.*}} tile 4
// CHECK:         tcp.winograd_conv {{.*}} tile 2
func.func @two_tiles(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>, %v: tensor<1x4x16x16x16xf32>, %u: tensor<1x4x14x14x16xf32>) -> (tensor<1x4x56x56x16xf32>, tensor<1x4x14x14x16xf32>) {
  %z0 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  %z1 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%v, %w : tensor<1x4x16x16x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%u : tensor<1x4x14x14x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x14x14x16xf32>
  return %z0, %z1 : tensor<1x4x56x56x16xf32>, tensor<1x4x14x14x16xf32>
}

// Bound when the program is loaded, but with a dynamic number of rows.
// CHECK-LABEL: func.func @dynamic
// CHECK-NOT:     tcp.winograd_conv
func.func @dynamic(%x: tensor<1x4x?x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x?x56x16xf32>) -> tensor<1x4x?x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x?x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x?x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x?x56x16xf32>
  return %z : tensor<1x4x?x56x16xf32>
}

// One pixel, for which a tile takes longer.
// CHECK-LABEL: func.func @pixel
// CHECK-NOT:     tcp.winograd_conv
// CHECK-LABEL: func.func @five
func.func @pixel(%x: tensor<1x4x3x3x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x1x1x16xf32>) -> tensor<1x4x1x1x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x3x3x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x1x1x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x1x1x16xf32>
  return %z : tensor<1x4x1x1x16xf32>
}

// A kernel of five rows.
// TWO-LABEL: func.func @five
// TWO-NOT:     tcp.winograd_conv
func.func @five(%x: tensor<1x4x60x60x16xf32>, %w: tensor<4x4x5x5x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 5, 5>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x60x60x16xf32>, tensor<4x4x5x5x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// Other elements than f32, for which the error is known.
// TWO-LABEL: func.func @wide
// TWO-NOT:     tcp.winograd_conv
func.func @wide(%x: tensor<1x4x58x58x16xf64>, %w: tensor<4x4x3x3x16x16xf64> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf64>) -> tensor<1x4x56x56x16xf64> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf64>, tensor<4x4x3x3x16x16xf64>) outs(%y : tensor<1x4x56x56x16xf64>) {
  ^bb0(%a: f64, %b: f64, %c: f64):
    %p = arith.mulf %a, %b : f64
    %s = arith.addf %c, %p : f64
    linalg.yield %s : f64
  } -> tensor<1x4x56x56x16xf64>
  return %z : tensor<1x4x56x56x16xf64>
}

// Rows in steps of two.
// TWO-LABEL: func.func @strided
// TWO-NOT:     tcp.winograd_conv
func.func @strided(%x: tensor<1x4x113x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y * 2 + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x113x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// The largest product.
// TWO-LABEL: func.func @maximum
// TWO-NOT:     tcp.winograd_conv
func.func @maximum(%x: tensor<1x4x58x58x16xf32>, %w: tensor<4x4x3x3x16x16xf32> {padc.weight = "w", padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}, %y: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c, i, j, l, m) -> (n, c, y + i, x + j, l)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (o, c, i, j, l, m)>, affine_map<(n, o, y, x, c, i, j, l, m) -> (n, o, y, x, m)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<1x4x58x58x16xf32>, tensor<4x4x3x3x16x16xf32>) outs(%y : tensor<1x4x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.maximumf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x56x56x16xf32>
  return %z : tensor<1x4x56x56x16xf32>
}

// An op of one input, and a function without a body.
// TWO-LABEL: func.func @other
// TWO:         linalg.generic
func.func @other(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
