// RUN: padc-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mil.relu of iOS15 has no input 'y'; it has x
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.relu(x = %x, y = %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.add of iOS15 needs an input 'y'
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.add(x = %x) : (tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.transpose of iOS17 needs a constant 'perm', not a computed one
%x, %perm = "test.op"() : () -> (tensor<2x3xf32>, tensor<2xi32>)
%y = mil.transpose(x = %x, perm = %perm) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>

// -----

// CHECK: mil.relu of iOS15 takes fp16 or fp32 as 'x', not tensor<2xi32>
%x = "test.op"() : () -> tensor<2xi32>
%y = mil.relu(x = %x) : (tensor<2xi32>) -> tensor<2xi32>

// -----

// CHECK: mil.relu of iOS15 takes fp16 or fp32 as 'x', not tensor<2xf64>
%x = "test.op"() : () -> tensor<2xf64>
%y = mil.relu(x = %x) : (tensor<2xf64>) -> tensor<2xf64>

// -----

// CHECK: mil.add of iOS15 needs one element type for 'x' and 'y', got fp32 and fp16
%a, %b = "test.op"() : () -> (tensor<2xf32>, tensor<2xf16>)
%y = mil.add(x = %a, y = %b) : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>

// -----

// CHECK: mil.add of iOS15 needs one element type for 'x' and 'y', got fp32 and
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.add(x = %x, y = 1) : (tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.relu has a value of type tensor<1x1x1x1x1x2xf32>; Core ML's tensors have rank 5 at most
%x = "test.op"() : () -> tensor<1x1x1x1x1x2xf32>
%y = mil.relu(x = %x) : (tensor<1x1x1x1x1x2xf32>) -> tensor<1x1x1x1x1x2xf32>

// -----

// CHECK: mil.add of iOS15 has two inputs 'x'
%x = "test.op"() : () -> tensor<2xf32>
%y = "mil.add"(%x, %x) <{argument_names = ["x", "y"], constants = {x = 1.0}}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.relu of iOS15 takes one 'x', not 2
%x = "test.op"() : () -> tensor<2xf32>
%y = "mil.relu"(%x, %x) <{argument_names = ["x", "x"], constants = {}}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.relu has 1 operands and 0 names for them
%x = "test.op"() : () -> tensor<2xf32>
%y = "mil.relu"(%x) <{argument_names = [], constants = {}}> : (tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: 'values' mixes values and constants
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.concat(values = [%x, 1.0], axis = 0) : (tensor<2xf32>) -> tensor<3xf32>

// -----

// CHECK: input 'x' is given twice
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.add(x = %x, x = %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.levitate
%y = mil.levitate(axis = 1) : () -> tensor<2xf32>

// -----

// CHECK: mil.read_state of iOS18 takes state as 'input', not tensor<2xf16>
%x = "test.op"() : () -> tensor<2xf16>
%y = mil.read_state(input = %x) : (tensor<2xf16>) -> tensor<2xf16>

// -----

// CHECK: as 'x', not !mil.state<tensor<2xf16>>
%x = "test.op"() : () -> !mil.state<tensor<2xf16>>
%y = mil.relu(x = %x) : (!mil.state<tensor<2xf16>>) -> tensor<2xf16>

// -----

// CHECK: mil.cond has 1 blocks, not 2
%p = "test.op"() : () -> tensor<i1>
mil.cond(pred = %p) : (tensor<i1>) -> () {
  mil.yield
}

// -----

// CHECK: mil.cond needs results of a block of type (tensor<2xf32>), not (tensor<i1>)
%p = "test.op"() : () -> tensor<i1>
%y = mil.cond(pred = %p) : (tensor<i1>) -> tensor<2xf32> {
  mil.yield %p : tensor<i1>
} {
  mil.yield %p : tensor<i1>
}

// -----

// CHECK: mil.cond needs a 'pred' of type (tensor<i1>), not (tensor<1xi1>)
%p = "test.op"() : () -> tensor<1xi1>
mil.cond(pred = %p) : (tensor<1xi1>) -> () {
  mil.yield
} {
  mil.yield
}

// -----

// CHECK: mil.while_loop needs a condition of type (tensor<i1>), not (tensor<2xf32>)
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.while_loop(loop_vars = [%x]) : (tensor<2xf32>) -> tensor<2xf32> {
^bb0(%v: tensor<2xf32>):
  mil.yield %v : tensor<2xf32>
} {
^bb0(%v: tensor<2xf32>):
  mil.yield %v : tensor<2xf32>
}

// -----

// CHECK: a block of mil.while_loop ends in 'mil.yield'
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.while_loop(loop_vars = [%x]) : (tensor<2xf32>) -> tensor<2xf32> {
^bb0(%v: tensor<2xf32>):
  "test.termop"() : () -> ()
} {
^bb0(%v: tensor<2xf32>):
  mil.yield %v : tensor<2xf32>
}

// -----

// CHECK: mil.argsort has 5 in 'axis', of 3 dimensions
%x = "test.op"() : () -> tensor<2x3x4xf32>
%y = mil.argsort(x = %x, axis = 5, ascending = true)
  : (tensor<2x3x4xf32>) -> tensor<2x3x4xi32>

// -----

// CHECK: mil.expand_dims has 4 in 'axes', of 4 dimensions
%x = "test.op"() : () -> tensor<2x3xf32>
%y = mil.expand_dims(x = %x, axes = [0, 4]) : (tensor<2x3xf32>) -> tensor<1x2x3x1xf32>

// -----

// CHECK: mil.transpose has a dimension twice in 'perm'
%x = "test.op"() : () -> tensor<2x2xf32>
%y = mil.transpose(x = %x, perm = [0, -2]) : (tensor<2x2xf32>) -> tensor<2x2xf32>

// -----

// CHECK: mil.transpose has a 'perm' of 1 of 2 dimensions
%x = "test.op"() : () -> tensor<2x2xf32>
%y = mil.transpose(x = %x, perm = [0]) : (tensor<2x2xf32>) -> tensor<2x2xf32>

// -----

// CHECK: mil.cast to int32 has a result of tensor<2xf32>
%x = "test.op"() : () -> tensor<2xf32>
%y = mil.cast(x = %x, dtype = "int32") : (tensor<2xf32>) -> tensor<2xf32>

// -----

// CHECK: mil.gather has 1 in 'axis', of 1 dimensions
%i = "test.op"() : () -> tensor<2x3x4xi32>
%x = "test.op"() : () -> tensor<5xf32>
%y = mil.gather(indices = %i, x = %x, axis = 1)
  : (tensor<2x3x4xi32>, tensor<5xf32>) -> tensor<2x3x4xf32>
