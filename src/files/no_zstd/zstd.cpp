// A build where libzstd's header was not found.
#include "ac_advisor/model/error.hpp"
#include "files/byte_source.hpp"

namespace ac_advisor::files {

std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> /*packed*/,
                                        const std::string& origin) {
  throw UserError(origin +
                  ": is compressed by zstd, which this build cannot unpack; unpack it first (zstd "
                  "-d), or install libzstd-dev and build again");
}

}  // namespace ac_advisor::files
