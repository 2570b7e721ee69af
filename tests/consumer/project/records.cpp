// SPDX-License-Identifier: Apache-2.0
// A file of records, with the component records.
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include <cairn/records/record_options.hpp>
#include <cairn/records/record_reader.hpp>
#include <cairn/records/record_writer.hpp>

int main() try {
  using cairn::records::Codec;
  for (const Codec codec : {Codec::none, Codec::brotli, Codec::zstd, Codec::snappy}) {
    if (!cairn::records::is_built_in(codec)) {
      continue;
    }
    cairn::records::RecordOptions options;
    options.codec = codec;
    cairn::records::RecordWriter writer("file of records", options);
    writer.write("first");
    writer.write(std::string_view("second"));
    writer.finish();

    cairn::records::RecordReader reader("file of records");
    std::string record;
    if (!reader.next(record) || record != "first" || !reader.next(record) || record != "second" ||
        reader.next(record)) {
      return 1;
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
