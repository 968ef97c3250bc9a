"""What names a machine and its class."""

from kernellab.machine.environment import device_identity, machine_class


def test_a_class_of_machines_knows_no_serial_number():
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-123", "driver": "580"}
    env = {"gpus": [gpu], "cpu": {"name": "Xeon", "cores": 2}}
    assert machine_class(env, "GPU-123") == "NVIDIA H200 driver 580"
    assert device_identity(env, "GPU-123") == "NVIDIA H200 GPU-123 driver 580"
