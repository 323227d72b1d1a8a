// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s

// The product reads its bias in the tiles; nothing writes the result before.
// CHECK-LABEL: llvm.func @with_bias
// CHECK:         llvm.call @kernel_0
// CHECK-NEXT:    llvm.return
builtin.module {
  func.func @with_bias(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %b: memref<16xf32>, %y: memref<40x16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%b : memref<16xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    func.return
  }

// A start that is computed, or of another part, is an op of its own.
// CHECK-LABEL: llvm.func @computed
// CHECK:         llvm.call @kernel_1
// CHECK-NEXT:    llvm.call @kernel_2
  func.func @computed(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %b: memref<16xf32>, %y: memref<40x16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%b : memref<16xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    func.return
  }

// The op after the product runs on its tiles; one that reads another part does not.
// CHECK-LABEL: llvm.func @with_epilogue
// CHECK:         llvm.call @kernel_3
// CHECK-NEXT:    llvm.call @kernel_4
// CHECK-NEXT:    llvm.return
  func.func @with_epilogue(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %b: memref<16xf32>, %y: memref<40x16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%b : memref<16xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<40x16xf32>) {
    ^bb0(%o: f32):
      %n = arith.negf %o : f32
      linalg.yield %n : f32
    }
    %first = memref.subview %y[0, 0] [1, 16] [1, 1] : memref<40x16xf32> to memref<1x16xf32, strided<[16, 1]>>
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} outs(%first : memref<1x16xf32, strided<[16, 1]>>) {
    ^bb0(%o: f32):
      %n = arith.negf %o : f32
      linalg.yield %n : f32
    }
    func.return
  }

// Kernels that start from a number, and from an element of a buffer, are two.
// CHECK-LABEL: llvm.func @from_number
// CHECK:         llvm.call @kernel_5
// CHECK-NEXT:    llvm.return
  func.func @from_number(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %y: memref<40x16xf32>) {
    %one = arith.constant 1.0 : f32
    linalg.fill ins(%one : f32) outs(%y : memref<40x16xf32>)
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    func.return
  }

// CHECK-LABEL: llvm.func @from_element
// CHECK:         llvm.call @kernel_6
// CHECK-NEXT:    llvm.return
  func.func @from_element(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %b: memref<f32>, %y: memref<40x16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n) -> ()>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%b : memref<f32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    func.return
  }

// Without a static number of products, none may be the first, but there is a last one.
// CHECK-LABEL: llvm.func internal @dynamic_body
// CHECK:         llvm.call @kernel_
// CHECK:         llvm.call @padc_share
// CHECK-NOT:     llvm.call
// CHECK:         llvm.return
  func.func @dynamic(%x: memref<40x?xf32>, %w: memref<16x?xf32>, %y: memref<40x16xf32>) {
    %one = arith.constant 1.0 : f32
    linalg.fill ins(%one : f32) outs(%y : memref<40x16xf32>)
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x?xf32>, memref<16x?xf32>) outs(%y : memref<40x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<40x16xf32>) {
    ^bb0(%o: f32):
      %n = arith.negf %o : f32
      linalg.yield %n : f32
    }
    func.return
  }

// An op that also reads the rows below those that it writes comes after all products.
// CHECK-LABEL: llvm.func @rows_below
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
  func.func @rows_below(%x: memref<40x24xf32>, %w: memref<16x24xf32>, %y: memref<41x16xf32>) {
    %t = memref.subview %y[0, 0] [40, 16] [1, 1] : memref<41x16xf32> to memref<40x16xf32, strided<[16, 1]>>
    %u = memref.subview %y[1, 0] [40, 16] [1, 1] : memref<41x16xf32> to memref<40x16xf32, strided<[16, 1], offset: 16>>
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<40x24xf32>, memref<16x24xf32>) outs(%t : memref<40x16xf32, strided<[16, 1]>>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %p = arith.mulf %a, %c : f32
      %s = arith.addf %p, %o : f32
      linalg.yield %s : f32
    }
    linalg.add ins(%u, %t : memref<40x16xf32, strided<[16, 1], offset: 16>>, memref<40x16xf32, strided<[16, 1]>>) outs(%t : memref<40x16xf32, strided<[16, 1]>>)
    func.return
  }
}
