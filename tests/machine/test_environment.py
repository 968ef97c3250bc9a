"""The identity of a device and the class of its machine."""

from kernellab.machine.environment import device_identity, machine_class


def test_only_the_identity_of_a_device_contains_its_uuid():
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-123", "driver": "580"}
    env = {"gpus": [gpu], "cpu": {"name": "Xeon", "cores": 2}}
    assert machine_class(env, "GPU-123") == "NVIDIA H200 driver 580"
    assert device_identity(env, "GPU-123") == "NVIDIA H200 GPU-123 driver 580"
