#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// The page that plans in a browser (web/), served to the browsers of this machine.
namespace ac_advisor::serve {

/// The page as one file: beside an installed program in share/ac-advisor/, beside a built one in
/// build/web/. `file` names another (empty: those). Throws UserError naming what makes it.
[[nodiscard]] std::string page_text(const std::string& file);

/// A file that the page offers.
struct Offered {
  std::string name;  ///< relative to the folder, with '/'
  std::string text;
};

/// The JSON files of `folder` and of the folders in it that look like a model's configuration (they
/// have "model_type"), in the order of their names: at most 200, each of at most 1 MiB, among the
/// smallest files of 32 MiB together. Links out of the folder and hidden folders are not followed.
/// Nothing is written.
[[nodiscard]] std::vector<Offered> offered_files(const std::filesystem::path& folder);

/// The page with these files to pick from. Throws UserError where it is not web/'s page.
[[nodiscard]] std::string page_with(const std::string& page, const std::vector<Offered>& files);

/// Answers GET and HEAD of `/` at 127.0.0.1:`port` (0: any that is free) with what `page` gives,
/// anything else with an error, until SIGINT or SIGTERM. A request whose Host is another name than
/// this address is refused: a page from elsewhere could have had its name point here.
/// Without descriptors for another connection it waits until one is closed. `listening` is told the
/// port once. Throws UserError where it cannot listen.
void listen(std::uint16_t port, const std::function<std::string()>& page,
            const std::function<void(std::uint16_t port)>& listening);

}  // namespace ac_advisor::serve
