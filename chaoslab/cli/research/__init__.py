"""Commands of `chaoslab research`: simulation studies, calibration, and the selftest."""
