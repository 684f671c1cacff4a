#pragma once

#include <filesystem>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/page.hpp"

namespace ac_advisor::test {

/// Writes the page to the build folder.
std::filesystem::path written(const std::string& name, const reports::Page& page);

/// Llama-3.2-1B over eight ranks, exactly 500 configurations.
advise::Sweep sweep_of_500();
/// The page that `advise --format html` makes of it.
reports::Page page_of(const advise::Sweep& sweep);
/// The page that `plan --format html` makes.
reports::Page page_of(const std::string& model, const OptionList& options);

}  // namespace ac_advisor::test
