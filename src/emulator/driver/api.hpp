#pragma once

#include <cuda.h>

#include "emulator/answer.hpp"
