"""
The inputs and outputs of a package as an app wants them.

    features      what `padc.convert` is told of them
    interface     the inputs and outputs of a program in Core ML
    shapes        the shapes that an input takes
    io_types      the dtypes that inputs and outputs can have
    defaults      inputs that an app may leave out
    images        ops between pixels and the model's tensors
    image_type    images for models that are trained on normalized ones
    labels        classifiers: labels, and the op that gives the predicted one
    denotation    the tensors that images and labels stand for
    description   the inputs and outputs in the protobuf of a program
    metadata      author, license, descriptions, Xcode's preview
"""
