"""Writes testdata/*.parquet, small files of each kind that the package reads, and some that it refuses.

pip install pyarrow==26.0.1; python3 generate.py (beside this file). The rows are those of rows() in parquet_test.go.
"""
import os
import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata")
os.makedirs(here, exist_ok=True)


def row(i):
    if i % 7 == 3:
        return None
    if i % 5 == 1:
        return ""
    return ("Zeile %d: größer, 汉字 " % (i % 40)) * (1 + i % 4)


rows = [row(i) for i in range(500)]
rows[250] = "long " * 4000  # more than a page
table = pa.table({
    "id": pa.array(range(500), pa.int64()),
    "text": pa.array(rows, pa.string()),
    "tags": pa.array([["a", "b"]] * 500, pa.list_(pa.string())),
    "meta": pa.array([{"title": None if i % 3 == 0 else "t%d" % i} for i in range(500)]),
})


def write(name, t=table, **kw):
    pq.write_table(t, os.path.join(here, name + ".parquet"), **kw)


write("snappy", compression="snappy")  # pyarrow's own way: dictionary, pages of version 1
write("zstd", compression="zstd", row_group_size=123)
write("gzip", compression="gzip", use_dictionary=False, data_page_size=2000)
write("plain", compression="none", use_dictionary=False, row_group_size=200, write_statistics=False)
write("v2", compression="zstd", data_page_version="2.0", data_page_size=2000)
write("delta", compression="snappy", use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"}, data_page_version="2.0")
# Refused.
write("brotli", compression="brotli")
write("prefixes", compression="snappy", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
# Rows that are all there, and a text that is not UTF-8.
write("required", pa.table({"text": pa.array([str(i) for i in range(10)])}, schema=pa.schema([pa.field("text", pa.string(), nullable=False)])))
write("latin", pa.table({"text": pa.array([b"good", "schön".encode("latin-1")], pa.binary())}))
write("empty", pa.table({"text": pa.array([], pa.string())}))
