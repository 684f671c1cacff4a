#include "cli/read_traces.hpp"

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"

namespace ac_advisor::cli {

reports::Document read_traces(const std::vector<std::string>& files) {
  std::error_code none;
  std::vector<std::string> all;
  for (const std::string& file : files) {
    if (!std::filesystem::is_directory(file, none)) {
      all.push_back(file);
      continue;
    }
    const std::vector<std::string> inside = trace::trace_files(file);
    all.insert(all.end(), inside.begin(), inside.end());
  }
  const std::string& origin = files.front();
  if (all.size() == 1) return {all.front(), trace::summary_of(trace::read_trace(all.front()))};
  reports::RankSummaries ranks;
  ranks.origin = files.size() == 1 ? origin : std::to_string(files.size()) + " files";
  std::vector<std::string> left_out;
  ranks.each = trace::summaries_of(all, left_out);
  // Of a folder with one trace among other files there is nothing to set beside it.
  if (ranks.each.size() == 1) {
    trace::Summary alone = std::move(ranks.each.front());
    alone.notes.insert(alone.notes.end(), left_out.begin(), left_out.end());
    return {alone.origin, std::move(alone)};
  }
  ranks.together = trace::ranks_of(ranks.each);
  ranks.together.notes.insert(ranks.together.notes.end(), left_out.begin(), left_out.end());
  return {ranks.origin, std::move(ranks)};
}

}  // namespace ac_advisor::cli
