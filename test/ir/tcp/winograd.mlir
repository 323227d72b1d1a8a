// RUN: padc-opt %s | padc-opt | filecheck %s

// CHECK: tcp.winograd_conv %{{.*}}, %{{.*}} outs %{{.*}} tile 2 block 4 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>
%x, %u, %y = "test.op"() : () -> (tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32>)
%z = tcp.winograd_conv %x, %u outs %y tile 2 block 4 : tensor<1x2x5x6x4xf32>, tensor<4x4x1x2x4x8xf32>, tensor<1x1x3x4x8xf32> -> tensor<1x1x3x4x8xf32>

// CHECK: tcp.winograd_conv %{{.*}}, %{{.*}} outs %{{.*}} tile 4 block 1 : memref<1x2x5x6x4xf32>, memref<6x6x1x2x4x8xf32>, memref<1x1x3x4x8xf32>
%a, %b, %c = "test.op"() : () -> (memref<1x2x5x6x4xf32>, memref<6x6x1x2x4x8xf32>, memref<1x1x3x4x8xf32>)
tcp.winograd_conv %a, %b outs %c tile 4 block 1 : memref<1x2x5x6x4xf32>, memref<6x6x1x2x4x8xf32>, memref<1x1x3x4x8xf32>
