#pragma once
// Declarations of what ProcessGroupGloo.hpp of torch 2.11.0 names; PyPI's wheel has Gloo's code but
// not its headers. Nothing here is ever made or sized: c10d's own code does that.
