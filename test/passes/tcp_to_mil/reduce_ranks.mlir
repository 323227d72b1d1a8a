// RUN: padc-opt -p reduce-ranks %s | filecheck %s

// Which shapes and permutations are left; that they compute the same is tested in Python.

// Dimensions that stay next to each other are merged, and no view of six is left.
// CHECK-LABEL: func.func @windows
// CHECK:         torch.aten.reshape %{{.*}} -> !torch.vtensor<[4,4,3,24],f32>
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[4,3,4,24],f32>
// CHECK:         torch.aten.reshape %{{.*}} -> !torch.vtensor<[12,16,6],f32>
// CHECK-NOT:     torch.aten
// CHECK:         return
func.func @windows(%x : !torch.vtensor<[2,8,12,6],f32>) -> !torch.vtensor<[12,16,6],f32> {
  %n0 = torch.constant.int 0
  %n1 = torch.constant.int 1
  %n2 = torch.constant.int 2
  %n3 = torch.constant.int 3
  %n4 = torch.constant.int 4
  %n5 = torch.constant.int 5
  %n6 = torch.constant.int 6
  %n12 = torch.constant.int 12
  %n16 = torch.constant.int 16
  %split = torch.prim.ListConstruct %n2, %n2, %n4, %n3, %n4, %n6 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.view %x, %split : !torch.vtensor<[2,8,12,6],f32>, !torch.list<int> -> !torch.vtensor<[2,2,4,3,4,6],f32>
  %order = torch.prim.ListConstruct %n0, %n1, %n3, %n2, %n4, %n5 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.aten.permute %0, %order : !torch.vtensor<[2,2,4,3,4,6],f32>, !torch.list<int> -> !torch.vtensor<[2,2,3,4,4,6],f32>
  %whole = torch.prim.ListConstruct %n12, %n16, %n6 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %2 = torch.aten.view %1, %whole : !torch.vtensor<[2,2,3,4,4,6],f32>, !torch.list<int> -> !torch.vtensor<[12,16,6],f32>
  func.return %2 : !torch.vtensor<[12,16,6],f32>
}

// Elementwise ops do not care how the elements are arranged.
// CHECK-LABEL: func.func @elementwise
// CHECK:         torch.aten.relu %{{.*}} -> !torch.vtensor<[4,6],f32>
// CHECK:         torch.aten.reshape %{{.*}} -> !torch.vtensor<[24],f32>
// CHECK-NOT:     torch.aten
// CHECK:         return
func.func @elementwise(%x : !torch.vtensor<[4,6],f32>) -> !torch.vtensor<[24],f32> {
  %n1 = torch.constant.int 1
  %n2 = torch.constant.int 2
  %n6 = torch.constant.int 6
  %n24 = torch.constant.int 24
  %split = torch.prim.ListConstruct %n2, %n1, %n2, %n1, %n6, %n1 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.view %x, %split : !torch.vtensor<[4,6],f32>, !torch.list<int> -> !torch.vtensor<[2,1,2,1,6,1],f32>
  %1 = torch.aten.relu %0 : !torch.vtensor<[2,1,2,1,6,1],f32> -> !torch.vtensor<[2,1,2,1,6,1],f32>
  %whole = torch.prim.ListConstruct %n24 : (!torch.int) -> !torch.list<int>
  %2 = torch.aten.view %1, %whole : !torch.vtensor<[2,1,2,1,6,1],f32>, !torch.list<int> -> !torch.vtensor<[24],f32>
  func.return %2 : !torch.vtensor<[24],f32>
}

// Inputs, and their bounds, are judged elsewhere.
// CHECK-LABEL: func.func @input
// CHECK-NEXT:    torch.symbolic_int
// CHECK-NEXT:    torch.bind_symbolic_shape
// CHECK-NEXT:    return %x
func.func @input(%x : !torch.vtensor<[?,1,1,1,1,2],f32>) -> !torch.vtensor<[?,1,1,1,1,2],f32> {
  %s = torch.symbolic_int "s" {min_val = 1, max_val = 9} : !torch.int
  torch.bind_symbolic_shape %x, [%s], affine_map<()[s0] -> (s0, 1, 1, 1, 1, 2)> : !torch.vtensor<[?,1,1,1,1,2],f32>
  func.return %x : !torch.vtensor<[?,1,1,1,1,2],f32>
}

// Two dynamic sizes: one of them is computed, the other is what is left.
// CHECK-LABEL: func.func @dynamic
// CHECK:         %[[H:.*]] = torch.aten.size.int
// CHECK:         %[[LIST:.*]] = torch.prim.ListConstruct %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (!torch.int
// CHECK-NEXT:    torch.aten.reshape %{{.*}}, %[[LIST]] {{.*}} -> !torch.vtensor<[?,4,?,4],f32>
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[?,?,4,4],f32>
func.func @dynamic(%x : !torch.vtensor<[?,4,?],f32>) -> !torch.vtensor<[?,4,4],f32> {
  %n0 = torch.constant.int 0
  %n1 = torch.constant.int 1
  %n2 = torch.constant.int 2
  %n3 = torch.constant.int 3
  %n4 = torch.constant.int 4
  %n5 = torch.constant.int 5
  %none = torch.constant.int -1
  %h = torch.aten.size.int %x, %n0 : !torch.vtensor<[?,4,?],f32>, !torch.int -> !torch.int
  %split = torch.prim.ListConstruct %h, %n1, %n4, %none, %n2, %n2 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.view %x, %split : !torch.vtensor<[?,4,?],f32>, !torch.list<int> -> !torch.vtensor<[?,1,4,?,2,2],f32>
  %order = torch.prim.ListConstruct %n0, %n3, %n1, %n2, %n4, %n5 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.aten.permute %0, %order : !torch.vtensor<[?,1,4,?,2,2],f32>, !torch.list<int> -> !torch.vtensor<[?,?,1,4,2,2],f32>
  %whole = torch.prim.ListConstruct %none, %n4, %n4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %2 = torch.aten.view %1, %whole : !torch.vtensor<[?,?,1,4,2,2],f32>, !torch.list<int> -> !torch.vtensor<[?,4,4],f32>
  func.return %2 : !torch.vtensor<[?,4,4],f32>
}

// Parts that nothing uses are left out.
// CHECK-LABEL: func.func @unused
// CHECK-NOT:     torch.aten.split
// CHECK:         return %x
func.func @unused(%x : !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {
  %n1 = torch.constant.int 1
  %n2 = torch.constant.int 2
  %sizes = torch.prim.ListConstruct %n2, %n2, %n2, %n2, %n2, %n2 : (!torch.int, !torch.int, !torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.view %x, %sizes : !torch.vtensor<[64],f32>, !torch.list<int> -> !torch.vtensor<[2,2,2,2,2,2],f32>
  %parts = torch.aten.split.Tensor %y, %n1, %n1 : !torch.vtensor<[2,2,2,2,2,2],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
  func.return %x : !torch.vtensor<[64],f32>
}
