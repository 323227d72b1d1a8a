// RUN: padc-opt -p convert-to-winograd %s | filecheck %s
// RUN: padc-opt -p convert-to-winograd{tile=2} %s | filecheck %s --check-prefix=TWO

// The kernel that is packed for the direct convolution is no argument any more.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     tensor<4x4x3x3x16x16xf32>
// CHECK-SAME:    %[[U:[^:]*]]: tensor<6x6x4x4x16x16xf32> {padc.weight = "w", padc.tile = 4 : i64, padc.split = array<i64: 4, 16, 4, 16, 3, 3>, padc.order = array<i64: 4, 5, 0, 2, 3, 1>})
// CHECK:         tcp.winograd_conv %{{[^,]*}}, %[[U]] outs %{{.*}} tile 4 block 28
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
