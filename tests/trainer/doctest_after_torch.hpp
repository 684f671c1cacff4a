#pragma once

// c10's CHECK ends the process where doctest's counts a failure, and whichever header comes last
// has the name: c10's first, whatever follows, then doctest's. What stands in a precompiled header
// is not relied on.
#include <c10/util/Logging.h>
#undef CHECK

#include <doctest/doctest.h>
