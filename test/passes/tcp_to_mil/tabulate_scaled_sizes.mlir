// RUN: padc-opt -p tabulate-scaled-sizes %s | filecheck %s

// Three halves of a size are the same in integers.
// CHECK-LABEL: func.func @ratio
// CHECK:         [[N:%[^ ]+]] = torch.aten.size.int
// CHECK-NOT:     torch.aten.mul.float
// CHECK:         [[A:%[^ ]+]] = torch.constant.int 3
// CHECK-NEXT:    [[P:%[^ ]+]] = torch.aten.mul.int [[N]], [[A]]
// CHECK-NEXT:    [[B:%[^ ]+]] = torch.constant.int 2
// CHECK-NEXT:    torch.aten.floordiv.int [[P]], [[B]]
func.func @ratio(%x : !torch.vtensor<[?],f32>) -> !torch.vtensor<[?],f32> {
  %zero = torch.constant.int 0
  %n = torch.aten.size.int %x, %zero : !torch.vtensor<[?],f32>, !torch.int -> !torch.int
  %f = torch.aten.Float.Scalar %n : !torch.int -> !torch.float
  %c = torch.constant.float 1.5
  %m = torch.aten.mul.float %f, %c : !torch.float, !torch.float -> !torch.float
  %r = torch.aten.Int.float %m : !torch.float -> !torch.int
  %one = torch.constant.int 1
  %y = torch.aten.slice.Tensor %x, %zero, %zero, %r, %one : !torch.vtensor<[?],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[?],f32>
  func.return %y : !torch.vtensor<[?],f32>
}

// 0.29 * 100 is 28.999999999999996: what no ratio gives is looked up.
// CHECK-LABEL: func.func @table
// CHECK:         torch.vtensor.literal
// CHECK:         torch.aten.index_select
// CHECK:         torch.aten.Int.Tensor
func.func @table(%x : !torch.vtensor<[?],f32>) -> !torch.vtensor<[?],f32> {
  %zero = torch.constant.int 0
  %n = torch.aten.size.int %x, %zero : !torch.vtensor<[?],f32>, !torch.int -> !torch.int
  %f = torch.aten.Float.Scalar %n : !torch.int -> !torch.float
  %c = torch.constant.float 0.29
  %m = torch.aten.mul.float %f, %c : !torch.float, !torch.float -> !torch.float
  %r = torch.aten.Int.float %m : !torch.float -> !torch.int
  %one = torch.constant.int 1
  %y = torch.aten.slice.Tensor %x, %zero, %zero, %r, %one : !torch.vtensor<[?],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[?],f32>
  func.return %y : !torch.vtensor<[?],f32>
}

// What depends on two sizes stays.
// CHECK-LABEL: func.func @two
// CHECK:         torch.aten.Int.float
func.func @two(%x : !torch.vtensor<[?,?],f32>) -> !torch.vtensor<[?,?],f32> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %n = torch.aten.size.int %x, %zero : !torch.vtensor<[?,?],f32>, !torch.int -> !torch.int
  %k = torch.aten.size.int %x, %one : !torch.vtensor<[?,?],f32>, !torch.int -> !torch.int
  %m = torch.aten.div.int %n, %k : !torch.int, !torch.int -> !torch.float
  %r = torch.aten.Int.float %m : !torch.float -> !torch.int
  %y = torch.aten.slice.Tensor %x, %zero, %zero, %r, %one : !torch.vtensor<[?,?],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[?,?],f32>
  func.return %y : !torch.vtensor<[?,?],f32>
}
