"""Programs as data: JSON text that names functions and holds numbers. Reading it executes nothing."""
