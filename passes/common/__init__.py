"""What all steps share: the driver of lowerings, and builders."""
