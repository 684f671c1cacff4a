"""One time-boxed run on a machine with a GPU: bench/gpu/README.md. A package, so that no module of it hides another
one of that name (Hugging Face has a `kernels`, Python a `trace`)."""
