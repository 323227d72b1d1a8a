"""
What all steps share.

    broadcast     the rule of broadcasting
    lowering      the driver of lowerings that are tables
    retyping      narrower element types in place of those that a target lacks
    size_builder  arithmetic on sizes, as ops of arith
    mil_builder   ops of Core ML, with the types of their results inferred
"""
