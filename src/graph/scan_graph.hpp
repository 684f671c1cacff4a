#pragma once

#include <string>
#include <string_view>

#include "ac_advisor/graph/graph.hpp"

namespace ac_advisor::graph {

/// The names of a graph's dtypes and phases, by their enumerators.
inline constexpr std::string_view dtype_names[] = {
    "bfloat16", "float16", "float32", "float64",   "int64",         "int32",      "int16",
    "int8",     "uint8",   "bool",    "complex64", "float8_e4m3fn", "float8_e5m2"};
inline constexpr std::string_view phase_names[] = {"forward", "loss", "backward"};

/// Reads a graph as the capture writes it, straight from its text. False where anything is other
/// than it should be, or merely unusual (escapes in a string, keys that are not known):
/// `read_by_names` then reads the file, or says what is wrong. All but `digest` is filled.
[[nodiscard]] bool scan_graph(std::string_view text, Graph& graph);

/// Reads a graph by its fields' names, with all errors that there are.
[[nodiscard]] Graph read_by_names(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::graph
