#pragma once

#include "ac_advisor/reports/snapshot.hpp"
#include "reports/grid.hpp"

/// The tables that the renderers of snapshots share.
namespace ac_advisor::reports {

/// "peak allocated 12.3 GiB, …": what a person wants to know first.
[[nodiscard]] std::vector<std::string> sentences(const snapshot::Analysis& analysis);
[[nodiscard]] std::vector<TitledGrid> grids(const snapshot::Analysis& analysis, std::size_t rows);
[[nodiscard]] std::vector<TitledGrid> grids(const snapshot::Against& against, std::size_t rows);
[[nodiscard]] std::vector<TitledGrid> grids(const snapshot::Growth& growth, std::size_t rows);
[[nodiscard]] std::vector<std::string> sentences(const snapshot::Growth& growth);

}  // namespace ac_advisor::reports
