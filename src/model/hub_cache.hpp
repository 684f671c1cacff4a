#pragma once

#include <filesystem>
#include <string>

namespace ac_advisor::model {

/// Hugging Face's local cache (huggingface_hub, file_download.py): `models--org--name` has
/// `refs/main`, the name of a commit, and `snapshots/<commit>/`. Nothing is ever downloaded.

/// The folder of "org/name" in the cache of $HF_HUB_CACHE, $HF_HOME/hub or
/// ~/.cache/huggingface/hub; empty where it is not there.
[[nodiscard]] std::filesystem::path cached_model(const std::string& repository);

/// The cache that `cached_model` looks into, for messages.
[[nodiscard]] std::filesystem::path hub_cache();

/// The snapshot of a `models--org--name` folder: that of refs/main, or the only one. Throws
/// UserError where there is none, or several and no refs/main; empty for a folder that is no such
/// cache.
[[nodiscard]] std::filesystem::path snapshot_of(const std::filesystem::path& folder);

/// "name" of a path inside `models--org--name/snapshots/<commit>`; empty elsewhere.
[[nodiscard]] std::string repository_name(const std::filesystem::path& folder);

}  // namespace ac_advisor::model
