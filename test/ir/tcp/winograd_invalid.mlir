// RUN: padc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'tcp.winograd_conv' has tiles of 3; expected one of [2, 4]
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 3 block 4 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' has blocks of 0 tiles; expected 1 or more
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 2 block 0 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' takes either tensors, and has a result, or buffers
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
tcp.winograd_conv %x, %u outs %y tile 2 block 1 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' has input tensor<1x2x5x6xf32> and init tensor<1x1x3x4x8xf32>; expected 5 dimensions
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 2 block 1 : tensor<1x2x5x6xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' of tensor<1x2x5x6x4xf32> has init tensor<1x1x5x6x8xf32>; expected static sizes [1, 1, 3, 4, 8]
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x5x6x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 2 block 1 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x5x6x8xf32> -> tensor<1x1x5x6x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' has filters tensor<4x4x1x2x4x8xf32>; expected sizes [6, 6, 1, 2, 4, 8]
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 4 block 1 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>

// -----

// CHECK: 'tcp.winograd_conv' has result tensor<1x1x3x4x4xf32>; expected that of init, tensor<1x1x3x4x8xf32>
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 2 block 1 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x4xf32>
