#include "browser/pages.hpp"

#include <fstream>

#include "test_paths.hpp"

namespace ac_advisor::test {

std::filesystem::path written(const std::string& name, const reports::Page& page) {
  const std::filesystem::path folder = std::filesystem::path(binary_dir) / "browser";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << reports::html(page);
  return folder / name;
}

advise::Sweep sweep_of_500() {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const StepConfig base = resolve_options({{"--batch", "8"}, {"--seq", "2048"}, {"--world", "8"}});
  advise::Space space = advise::default_space(model, base);
  space.set("--batch", {"1", "2", "4", "8", "16"});
  advise::Sweep sweep = advise::sweep(model, base, space);
  sweep.rows.resize(500);
  return sweep;
}

reports::Page page_of(const advise::Sweep& sweep) {
  return {{{"", sweep}}, reports::details(sweep), "llama-3.2-1b"};
}

reports::Page page_of(const std::string& model, const OptionList& options) {
  const reports::Detail detail =
      reports::detail(model::load_model(model), resolve_options(options), model);
  return {{{"", detail.profile}}, {detail}, model};
}

}  // namespace ac_advisor::test
