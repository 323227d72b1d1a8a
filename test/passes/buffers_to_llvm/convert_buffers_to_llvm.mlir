// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s

// A row with its borders is two vectors, of the interior and a constant.
// CHECK:       llvm.func internal @kernel_0
// CHECK-COUNT-3: llvm.icmp
// CHECK:         llvm.shufflevector {{.*}} [0, 4, 5, 6]
// CHECK-NEXT:    llvm.store {{.*}} : vector<4xf32>
// CHECK:         llvm.shufflevector {{.*}} [5, 6, 7, 0]
// CHECK:         llvm.store {{.*}} : vector<4xf32>
// CHECK-NOT:     llvm.icmp
// CHECK-LABEL: llvm.func @padded
// CHECK:         llvm.call @kernel_0
// CHECK-NOT:     llvm.call
builtin.module {
  func.func @padded(%x: memref<2x3x4x5xf32>, %y: memref<2x3x6x7xf32>) {
    %zero = arith.constant 0.0 : f32
    %left = memref.subview %y[0, 0, 1, 0] [2, 3, 4, 1] [1, 1, 1, 1] : memref<2x3x6x7xf32> to memref<2x3x4x1xf32, strided<[126, 42, 7, 1], offset: 7>>
    linalg.fill ins(%zero : f32) outs(%left : memref<2x3x4x1xf32, strided<[126, 42, 7, 1], offset: 7>>)
    %right = memref.subview %y[0, 0, 1, 6] [2, 3, 4, 1] [1, 1, 1, 1] : memref<2x3x6x7xf32> to memref<2x3x4x1xf32, strided<[126, 42, 7, 1], offset: 13>>
    linalg.fill ins(%zero : f32) outs(%right : memref<2x3x4x1xf32, strided<[126, 42, 7, 1], offset: 13>>)
    %middle = memref.subview %y[0, 0, 1, 1] [2, 3, 4, 5] [1, 1, 1, 1] : memref<2x3x6x7xf32> to memref<2x3x4x5xf32, strided<[126, 42, 7, 1], offset: 8>>
    linalg.copy ins(%x : memref<2x3x4x5xf32>) outs(%middle : memref<2x3x4x5xf32, strided<[126, 42, 7, 1], offset: 8>>)
    func.return
  }

// An op that reads rows which another one writes at a different step shares no loop.
// CHECK-LABEL: llvm.func @swapped
// CHECK-COUNT-2: llvm.call
  func.func @swapped(%x: memref<4x5xf32>) {
    %to = memref.subview %x[0, 0] [2, 5] [1, 1] : memref<4x5xf32> to memref<2x5xf32, strided<[5, 1]>>
    %back = memref.subview %x[2, 0] [2, 5] [1, 1] : memref<4x5xf32> to memref<2x5xf32, strided<[5, 1], offset: 10>>
    linalg.copy ins(%back : memref<2x5xf32, strided<[5, 1], offset: 10>>) outs(%to : memref<2x5xf32, strided<[5, 1]>>)
    linalg.copy ins(%to : memref<2x5xf32, strided<[5, 1]>>) outs(%back : memref<2x5xf32, strided<[5, 1], offset: 10>>)
    func.return
  }

// Nor do views that are one value in the iterations of an unrolled loop.
// CHECK-LABEL: llvm.func @turns
// CHECK-COUNT-2: llvm.call
  func.func @turns(%x: memref<8x8xf32>, %w: memref<4x4x8xf32>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    scf.for %i = %zero to %two step %one {
      %part = memref.subview %w[%i, 0, 0] [2, 4, 8] [1, 1, 1] : memref<4x4x8xf32> to memref<2x4x8xf32, strided<[32, 8, 1], offset: ?>>
      %rows = memref.collapse_shape %part [[0, 1], [2]] : memref<2x4x8xf32, strided<[32, 8, 1], offset: ?>> into memref<8x8xf32, strided<[8, 1], offset: ?>>
      linalg.copy ins(%x : memref<8x8xf32>) outs(%rows : memref<8x8xf32, strided<[8, 1], offset: ?>>)
    }
    func.return
  }

// Ops that differ only in their operands share a function. Ops whose constants differ,
// even only in sign, do not, nor do ops that swap an input and an output.
// CHECK-LABEL: llvm.func @shared
// CHECK:         llvm.call @kernel_3
// CHECK-NEXT:    llvm.call @kernel_4
// CHECK-NEXT:    llvm.call @kernel_3
// CHECK-NEXT:    llvm.call @kernel_5
// CHECK-NOT:     llvm.call
  func.func @shared(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>, %w: memref<8xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.constant 0.0 : f32
      %r = arith.addf %a, %c : f32
      linalg.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<8xf32>) outs(%z : memref<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.constant -0.0 : f32
      %r = arith.addf %a, %c : f32
      linalg.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%z : memref<8xf32>) outs(%w : memref<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.constant 0.0 : f32
      %r = arith.addf %a, %c : f32
      linalg.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%w : memref<8xf32>) outs(%w : memref<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.constant 0.0 : f32
      %r = arith.addf %a, %c : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
