// RUN: PADC_ROUNDTRIP

// CHECK-LABEL: func.func @values_and_constants
func.func @values_and_constants(%x : tensor<1x3x8x8xf32>, %w : tensor<4x3x3x3xf32>) {
  // CHECK-NEXT: %y = mil.conv(x = %x, weight = %w, strides = [1, 1], pad_type = "custom", pad = [0, 0, 0, 0]) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %y = mil.conv(x = %x, weight = %w, strides = [1, 1], pad_type = "custom", pad = [0, 0, 0, 0]) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// CHECK-LABEL: func.func @tuple
func.func @tuple(%a : tensor<2xf32>) {
  // CHECK-NEXT: mil.concat(values = [%a, %a], axis = -1, interleave = false) : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %0 = mil.concat(values = [%a, %a], axis = -1, interleave = false) : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  // CHECK-NEXT: mil.concat(values = [%a], axis = 0) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = mil.concat(values = [%a], axis = 0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK-LABEL: func.func @state(%cache: !mil.state<tensor<2x4xf16>>
func.func @state(%cache : !mil.state<tensor<2x4xf16>>, %x : tensor<2x4xf16>) {
  // CHECK-NEXT: %old = mil.read_state(input = %cache) : (!mil.state<tensor<2x4xf16>>) -> tensor<2x4xf16>
  %old = mil.read_state(input = %cache) : (!mil.state<tensor<2x4xf16>>) -> tensor<2x4xf16>
  // CHECK-NEXT: %new = mil.coreml_update_state(state = %cache, value = %x) : (!mil.state<tensor<2x4xf16>>, tensor<2x4xf16>) -> tensor<2x4xf16>
  %new = mil.coreml_update_state(state = %cache, value = %x) : (!mil.state<tensor<2x4xf16>>, tensor<2x4xf16>) -> tensor<2x4xf16>
  func.return
}

// CHECK-LABEL: func.func @several_results
func.func @several_results(%x : tensor<4xf32>) {
  // CHECK-NEXT: %values, %indices = mil.topk(x = %x, k = 2) {note = "kept"} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  %values, %indices = mil.topk(x = %x, k = 2) {note = "kept"} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  func.return
}

// Floats keep every digit; what is not finite is written by its bits.
// CHECK-LABEL: func.func @floats
func.func @floats(%x : tensor<2xf32>) {
  // CHECK-NEXT: mil.clip(x = %x, alpha = 1.0e-05, beta = 0.12345678900000001)
  %0 = mil.clip(x = %x, alpha = 1.0e-05, beta = 0.12345678900000001) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: mil.clip(x = %x, alpha = -1.0e+22, beta = 0x7ff0000000000000 : f64)
  %1 = mil.clip(x = %x, alpha = -1.0e+22, beta = 0x7ff0000000000000 : f64) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: mil.clip(x = %x, alpha = 5.000000e-01 : f32, beta = 1.0)
  %2 = mil.clip(x = %x, alpha = 0.5 : f32, beta = 1.0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK-LABEL: func.func @tensors
func.func @tensors(%x : tensor<1x2x4x4xf32>) {
  // CHECK-NEXT: mil.batch_norm(x = %x, mean = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, variance = dense_resource<bn.var> : tensor<2xf32>, gamma = [1.0, 2.0])
  %0 = mil.batch_norm(x = %x, mean = dense<[1.0, 2.0]> : tensor<2xf32>, variance = dense_resource<bn.var> : tensor<2xf32>, gamma = [1.0, 2.0]) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// No values at all, and sizes that are known when the program runs.
// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%x : tensor<1x?x8xf16>) {
  // CHECK-NEXT: mil.relu(x = %x) : (tensor<1x?x8xf16>) -> tensor<1x?x8xf16>
  %0 = mil.relu(x = %x) : (tensor<1x?x8xf16>) -> tensor<1x?x8xf16>
  // CHECK-NEXT: mil.fill(shape = [2], value = true) : () -> tensor<2xi1>
  %1 = mil.fill(shape = [2], value = true) : () -> tensor<2xi1>
  func.return
}

// An op as an older version defines it, and int64 where Core ML has int32.
// CHECK-LABEL: func.func @versions
func.func @versions(%x : tensor<1x2x4x4xf32>, %roi : tensor<1x1x5x1x1xf32>, %i : tensor<2xi64>) {
  // CHECK-NEXT: mil.crop_resize(x = %x, roi = %roi, target_height = 2, target_width = 2)
  %0 = mil.crop_resize(x = %x, roi = %roi, target_height = 2, target_width = 2) : (tensor<1x2x4x4xf32>, tensor<1x1x5x1x1xf32>) -> tensor<1x1x2x2x2xf32>
  // CHECK-NEXT: mil.gather(x = %x, indices = %i, axis = 1)
  %1 = mil.gather(x = %x, indices = %i, axis = 1) : (tensor<1x2x4x4xf32>, tensor<2xi64>) -> tensor<1x2x4x4xf32>
  func.return
}

// Blocks, which use values from around them.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x : tensor<2x?xf32>, %p : tensor<i1>) {
  // CHECK-NEXT: %y = mil.cond(pred = %p) : (tensor<i1>) -> tensor<2x?xf32> {
  %y = mil.cond(pred = %p) : (tensor<i1>) -> tensor<2x?xf32> {
    // CHECK-NEXT: mil.yield %x : tensor<2x?xf32>
    mil.yield %x : tensor<2x?xf32>
  // CHECK-NEXT: } {
  } {
    %z = mil.relu(x = %x) : (tensor<2x?xf32>) -> tensor<2x?xf32>
    mil.yield %z : tensor<2x?xf32>
  }
  // CHECK: %c, %w = mil.while_loop(loop_vars = [%p, %y]) : (tensor<i1>, tensor<2x?xf32>) -> (tensor<i1>, tensor<2x?xf32>) {
  %c, %w = mil.while_loop(loop_vars = [%p, %y]) : (tensor<i1>, tensor<2x?xf32>) -> (tensor<i1>, tensor<2x?xf32>) {
  // CHECK-NEXT: ^bb0(%q: tensor<i1>, %v: tensor<2x?xf32>):
  ^bb0(%q: tensor<i1>, %v: tensor<2x?xf32>):
    // CHECK-NEXT: mil.yield %q : tensor<i1>
    mil.yield %q : tensor<i1>
  } {
  ^bb0(%q: tensor<i1>, %v: tensor<2x?xf32>):
    %n = mil.logical_not(x = %q) : (tensor<i1>) -> tensor<i1>
    // CHECK: mil.yield %n, %{{.*}} : tensor<i1>, tensor<2x?xf32>
    mil.yield %n, %v : tensor<i1>, tensor<2x?xf32>
  }
  func.return
}

// The dimensions that are named are those of `x` or `data`, whatever comes first.
// CHECK-LABEL: func.func @dimensions
func.func @dimensions(%x : tensor<2x3xf32>, %i : tensor<i32>, %j : tensor<1xi32>) {
  // CHECK-NEXT: mil.gather
  %a = mil.gather(indices = %i, x = %x, axis = 1) : (tensor<i32>, tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK-NEXT: mil.gather
  %b = mil.gather(indices = %i, x = dense<[1.0, 2.0]> : tensor<2xf32>, axis = 0) : (tensor<i32>) -> tensor<f32>
  // CHECK-NEXT: mil.one_hot
  %c = mil.one_hot(indices = %j, one_hot_vector_size = 3, axis = 1) : (tensor<1xi32>) -> tensor<1x3xi32>
  // CHECK-NEXT: mil.stack
  %d = mil.stack(values = [%x, %x], axis = -3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2x3xf32>
  func.return
}
