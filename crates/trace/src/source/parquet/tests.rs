//! Tests of Parquet traces of our own and of other programs.

use super::*;
use crate::sink::{Format, create};
use arrow_array::*;
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

fn write(rows: &[Transaction], path: &Path) {
    let mut sink = create(path, Format::of_path(path).unwrap(), true).unwrap();
    sink.write(&mut rows.to_vec()).unwrap();
    sink.finish().unwrap();
}

fn read(mut source: Box<dyn Source>) -> (Vec<Transaction>, Tally) {
    let mut all = Vec::new();
    while source.read(&mut all).unwrap() {}
    let tally = source.tally().clone();
    (all, tally)
}

fn read_tsv(path: &Path) -> Vec<Transaction> {
    let (all, tally) = read(open(path).unwrap());
    assert!(tally.damaged.is_empty(), "{tally:?}");
    all
}

fn open(path: &Path) -> Result<Box<dyn Source>, TraceError> {
    crate::open(&[crate::Input::File(path.to_owned())], &crate::OpenOptions::default())
}

/// Writes columns as a foreign program would.
fn foreign(columns: Vec<(&str, ArrayRef)>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut writer = ArrowWriter::try_new(file.reopen().unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn refusal(file: &tempfile::NamedTempFile) -> String {
    open(file.path()).err().unwrap().to_string()
}

#[test]
fn sizes_and_places_that_cannot_be_are_no_reason_to_panic() {
    let schema = parquet::schema::parser::parse_message_type("message m { required int64 a; required int64 b; }");
    let schema = Arc::new(parquet::schema::types::SchemaDescriptor::new(Arc::new(schema.unwrap())));
    let column = |number: usize, place| {
        let column = ColumnChunkMetaData::builder(schema.column(number)).set_total_uncompressed_size(i64::MAX);
        column.set_data_page_offset(place).build().unwrap()
    };
    let columns = vec![column(0, -5), column(1, 7)];
    let group = RowGroupMetaData::builder(schema.clone()).set_num_rows(2).set_column_metadata(columns).build();
    let group = group.unwrap();
    assert_eq!(group.columns().iter().map(start_of).collect::<Vec<_>>(), [0, 7]);
    assert_eq!(batch_rows(&group), 1);
}

#[test]
fn a_refusal_is_one_line_whatever_the_columns_are_called() {
    let file = foreign(vec![("time", texts(&["x"])), ("src", texts(&["x"])), ("query", texts(&["x"]))]);
    assert!(refusal(&file).contains("`time` has type Utf8"));
    let dictionary = DataType::Struct(vec![Field::new("a\nb", DataType::Int8, true)].into());
    let column = new_null_array(&dictionary, 1);
    let file = foreign(vec![("time", column), ("src", texts(&["x"])), ("query", texts(&["x"]))]);
    let refusal = refusal(&file);
    assert!(refusal.contains("`time` has type") && !refusal.contains('\n'), "{refusal}");
}

fn parts(row: &Transaction) -> Columns<'_> {
    Columns::of(&Message::new(row.query.as_ref().unwrap()).unwrap())
}

#[test]
fn the_least_columns_have_defaults() {
    let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2]));
    let (src, qname) = (texts(&["192.0.2.1", "2001:db8::1"]), texts(&["a.example", "."]));
    let file = foreign(vec![("time", time), ("src", src), ("qname", qname), ("qtype", texts(&["A", "TYPE2"]))]);
    let (all, tally) = read(open(file.path()).unwrap());
    assert_eq!((tally.queries, tally.damaged.len()), (2, 0));
    let servers: Vec<String> = all.iter().map(|row| row.server.to_string()).collect();
    assert_eq!(servers, ["0.0.0.0:53", "[::]:53"]);
    let question = Question { name: b"\x01a\x07example\0", qtype: 1, qclass: 1 };
    assert_eq!(parts(&all[0]), Columns { question: Some(question), flags: flag::RD, edns: None });
    assert_eq!(all[0].transport, Transport::Udp);
}

#[test]
fn types_of_other_programs_are_understood() {
    let seconds = [1_475_762_100i64, 1_475_762_101];
    let scaled = |scale: i64| seconds.iter().map(move |second| second * scale);
    let times: [ArrayRef; 6] = [
        Arc::new(TimestampSecondArray::from_iter_values(seconds)),
        Arc::new(TimestampMillisecondArray::from_iter_values(scaled(1_000)).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from_iter_values(scaled(1_000_000)).with_timezone("Europe/Berlin")),
        Arc::new(TimestampMicrosecondArray::from_iter_values(scaled(1_000_000))),
        Arc::new(TimestampNanosecondArray::from_iter_values(scaled(1_000_000_000))),
        Arc::new(Int64Array::from_iter_values(scaled(1_000_000_000))),
    ];
    let words = ["192.0.2.1", "192.0.2.2"];
    let sources: [ArrayRef; 6] = [
        Arc::new(LargeStringArray::from_iter_values(words)),
        Arc::new(StringViewArray::from_iter_values(words)),
        Arc::new(words.into_iter().collect::<DictionaryArray<types::Int8Type>>()),
        Arc::new(BinaryArray::from_iter_values(words)),
        Arc::new(words.into_iter().collect::<DictionaryArray<types::UInt32Type>>()),
        texts(&words),
    ];
    let ports: [ArrayRef; 6] = [
        Arc::new(Float64Array::from(vec![Some(4242.0), None])),
        Arc::new(Int64Array::from(vec![Some(4242), None])),
        Arc::new(UInt32Array::from(vec![Some(4242), None])),
        Arc::new(Float64Array::from(vec![4242.0, f64::NAN])),
        Arc::new(Int16Array::from(vec![Some(4242), None])),
        Arc::new(UInt16Array::from(vec![Some(4242), None])),
    ];
    for ((time, src), port) in times.into_iter().zip(sources).zip(ports) {
        let kinds = format!("{} {} {}", time.data_type(), src.data_type(), port.data_type());
        let message: ArrayRef = Arc::new(LargeBinaryArray::from(vec![Some(&[0u8; 12][..]), None]));
        let qtype: ArrayRef = Arc::new(Int32Array::from(vec![28, 16]));
        let truth: ArrayRef = Arc::new(BooleanArray::from(vec![None, Some(true)]));
        let columns = vec![("time", time), ("src", src), ("src_port", port), ("query", message)];
        let asked = vec![("qname", texts(&["a.", "b."])), ("qtype", qtype), ("do", truth)];
        let file = foreign(columns.into_iter().chain(asked).collect());
        let (all, tally) = read(open(file.path()).unwrap());
        assert!(tally.damaged.is_empty(), "{kinds}: {tally:?}");
        assert_eq!(all[1].time.0, 1_475_762_101_000_000_000, "{kinds}");
        assert_eq!((all[0].client, all[1].client.port()), ("192.0.2.1:4242".parse().unwrap(), 0), "{kinds}");
        assert_eq!(all[0].query.as_deref(), Some(&[0u8; 12][..]), "{kinds}: the message wins");
        let question = Question { name: b"\x01b\0", qtype: 16, qclass: 1 };
        assert_eq!(parts(&all[1]), Columns { question: Some(question), flags: flag::RD, edns: Some((1232, true)) });
    }
}

#[test]
fn a_column_without_values_is_as_if_it_were_not_there() {
    let null = || -> ArrayRef { Arc::new(NullArray::new(1)) };
    let time: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let needed =
        vec![("time", time), ("src", texts(&["192.0.2.1"])), ("qname", texts(&["a"])), ("qtype", texts(&["A"]))];
    let nulls = ["dst", "src_port", "transport", "query", "response", "stream", "qclass", "rd", "do", "edns_size"];
    let file = foreign(needed.into_iter().chain(nulls.map(|name| (name, null()))).collect());
    let (all, tally) = read(open(file.path()).unwrap());
    assert_eq!((all.len(), tally.damaged.len(), all[0].server), (1, 0, "0.0.0.0:53".parse().unwrap()));
}

#[test]
fn every_usual_compression_is_read() {
    let rows = [transaction(TraceTime(5), b"\x01a\0", 1, flag::RD, None)];
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    write(&rows, file.path());
    let batch =
        ParquetRecordBatchReaderBuilder::try_new(File::open(file.path()).unwrap()).unwrap().build().unwrap().next();
    let batch = batch.unwrap().unwrap();
    let usual = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(Default::default())];
    for codec in usual.into_iter().chain([Compression::LZ4_RAW, Compression::LZ4]) {
        let other = tempfile::NamedTempFile::new().unwrap();
        let properties = parquet::file::properties::WriterProperties::builder().set_compression(codec).build();
        let mut writer = ArrowWriter::try_new(other.reopen().unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert_eq!(read(open(other.path()).unwrap()).0, rows, "{codec}");
    }
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    let file = foreign(vec![("time", texts(&["now"])), ("src", texts(&["x"]))]);
    assert!(refusal(&file).contains("the column `qname` is missing"));
    let columns = vec![("time", texts(&["now"])), ("src", texts(&["x"])), ("query", texts(&["x"]))];
    assert!(refusal(&foreign(columns)).contains("`time` has type Utf8, expected a timestamp"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"PAR1 and then nothing").unwrap();
    assert!(refusal(&file).contains("damaged Parquet file"));
}

#[test]
fn bad_cells_damage_their_row_only() {
    let time: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let src = texts(&["192.0.2.1", "192.0.2.1", "nobody", "192.0.2.1"]);
    let (qname, qtype) = (texts(&["a", "b", "c", "d..e"]), texts(&["A", "A", "A", "A"]));
    let file = foreign(vec![("time", time), ("src", src), ("qname", qname), ("qtype", qtype)]);
    let (all, tally) = read(open(file.path()).unwrap());
    assert_eq!((all.len(), tally.packets), (1, 4));
    let damage: Vec<_> = tally.damaged.iter().map(|damage| (damage.reason.as_str(), damage.first.packet)).collect();
    assert_eq!(damage, [("bad_time", 2), ("bad_address", 3), ("bad_name", 4)]);
}

#[test]
fn the_schema_is_that_of_the_interface() {
    let schema = crate::sink::parquet_schema(None);
    let known: Vec<&str> = OUTER.iter().chain(&ASKED).map(|(name, _)| *name).chain(["rcode", "tc"]).collect();
    assert!(schema.fields().iter().all(|field| known.contains(&field.name().as_str())));
    assert_eq!(schema.fields().len(), known.len());
    let time = schema.field_with_name("time").unwrap().data_type();
    assert_eq!(*time, DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("UTC".into())));
}

#[test]
fn a_zone_of_damage_costs_its_row_group_only() {
    let row = |at: i64| transaction(TraceTime(at), b"\x01a\0", 1, flag::RD, None);
    let rows: Vec<Transaction> = (0..300_000).map(row).collect();
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    write(&rows, file.path());
    let mut octets = std::fs::read(file.path()).unwrap();
    let metadata = ArrowReaderMetadata::load(&File::open(file.path()).unwrap(), Default::default()).unwrap();
    let (start, length) = metadata.metadata().row_group(1).column(1).byte_range();
    octets[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(file.path(), octets).unwrap();
    let (all, tally) = read(open(file.path()).unwrap());
    let lost = metadata.metadata().row_group(1).num_rows() as usize;
    assert_eq!((all.len(), tally.packets), (rows.len() - lost, 300_000));
    assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].count), ("damaged_row_group", 1));
    assert_eq!(tally.skipped["row_in_damaged_group"], lost as u64);
}

fn transaction(time: TraceTime, name: &[u8], qtype: u16, flags: u16, edns: Option<(u16, bool)>) -> Transaction {
    let columns = Columns { question: Some(Question { name, qtype, qclass: 1 }), flags, edns };
    Transaction {
        index: 0,
        time,
        client: "192.0.2.1:1024".parse().unwrap(),
        server: "192.0.2.2:53".parse().unwrap(),
        transport: Transport::Udp,
        stream: None,
        query: Some(Composer::default().compose(&columns, 9)),
        response: None,
        response_delay: None,
        retry_of: None,
    }
}

prop_compose! {
    fn any_transaction()(
        time in any::<i64>(), ends in any::<(SocketAddr, SocketAddr)>(), transport in 0usize..6,
        label in prop::collection::vec(any::<u8>(), 1..=63), codes in any::<(u16, u16)>(), bits in any::<u16>(),
        edns in any::<Option<(u16, bool)>>(), asked in prop::bool::weighted(0.9),
        stream in any::<Option<u64>>(), answer in any::<Option<(u16, i64)>>(),
    ) -> Transaction {
        let mut name = vec![label.len() as u8];
        name.extend_from_slice(&label);
        name.push(0);
        let question = asked.then_some(Question { name: &name, qtype: codes.0, qclass: codes.1 });
        let columns = Columns { question, flags: bits & 0x7ff0, edns };
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Transaction {
            index: 0,
            time: TraceTime(time),
            client: plain(ends.0),
            server: plain(ends.1),
            transport: Transport::ALL[transport],
            stream,
            query: Some(Composer::default().compose(&columns, codes.0)),
            response: answer.map(|(rcode, _)| Bytes::from(vec![0, 1, 0x80, rcode as u8, 0, 0, 0, 0, 0, 0, 0, 0])),
            response_delay: answer.map(|(_, delay)| delay),
            retry_of: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parquet_keeps_everything_and_tsv_its_columns(mut rows in prop::collection::vec(any_transaction(), 0..20)) {
        rows.sort_by_key(|row| row.time);
        let directory = tempfile::tempdir().unwrap();
        let [first, text, second, again] = ["1.parquet", "1.tsv", "2.parquet", "2.tsv"].map(|name| directory.path().join(name));
        write(&rows, &first);
        let (from_parquet, tally) = read(open(&first).unwrap());
        prop_assert!(tally.damaged.is_empty(), "{:?}", tally);
        prop_assert_eq!(&from_parquet, &rows);
        write(&from_parquet, &text);
        if rows.is_empty() { return Ok(()); }
        let from_text = read_tsv(&text);
        write(&from_text, &second);
        let (from_second, _) = read(open(&second).unwrap());
        prop_assert_eq!(&from_second, &from_text);
        for (a, b) in rows.iter().zip(&from_second) {
            prop_assert_eq!((a.time, a.client, a.server, a.transport), (b.time, b.client, b.server, b.transport));
            prop_assert_eq!(parts(a), parts(b));
        }
        write(&from_second, &again);
        prop_assert_eq!(std::fs::read(&text).unwrap(), std::fs::read(&again).unwrap());
    }

    #[test]
    fn damage_anywhere_never_panics(at in any::<prop::sample::Index>(), octets in prop::collection::vec(any::<u8>(), 1..8)) {
        let rows: Vec<_> = (0..50).map(|at| transaction(TraceTime(at), b"\x01a\0", 1, 0, None)).collect();
        let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
        write(&rows, file.path());
        let mut whole = std::fs::read(file.path()).unwrap();
        let at = at.index(whole.len() - octets.len());
        whole[at..at + octets.len()].copy_from_slice(&octets);
        std::fs::write(file.path(), whole).unwrap();
        if let Ok(mut source) = open(file.path()) {
            let mut all = Vec::new();
            while source.read(&mut all).is_ok_and(|more| more) {}
        }
    }
}

/// Some kilobytes took gigabytes: each row had a copy of a value that the file has once.
#[test]
fn a_long_value_of_a_dictionary_is_in_memory_once() {
    let message = [&b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"[..], &vec![0; 60_000]].concat();
    let keys = Int32Array::from_iter_values(std::iter::repeat_n(0, 100_000));
    let octets = DictionaryArray::new(keys, Arc::new(BinaryArray::from_iter_values([&message])));
    let time = Arc::new(TimestampNanosecondArray::from_iter_values(0..100_000));
    let file = foreign(vec![("time", time), ("src", texts(&["192.0.2.1"; 100_000])), ("query", Arc::new(octets))]);
    let (rows, tally) = read(open(file.path()).unwrap());
    assert_eq!((rows.len(), tally.damaged.len()), (100_000, 0));
    let first = rows[0].query.as_ref().unwrap();
    assert!(rows.iter().all(|row| row.query.as_ref().unwrap().as_ptr() == first.as_ptr()), "one memory for all");
    assert_eq!(first[..], message[..]);
}

#[test]
fn a_page_of_more_than_the_limit_is_one_line() {
    let time = Arc::new(TimestampNanosecondArray::from_iter_values([0]));
    let octets = BinaryArray::from_iter_values([vec![0_u8; 260 << 20]]);
    let file = foreign(vec![("time", time), ("src", texts(&["192.0.2.1"])), ("query", Arc::new(octets))]);
    let mut source = open(file.path()).unwrap();
    let refused = source.read(&mut Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("pages of 260 MB") && refused.contains("the limit is 256 MB"), "{refused}");
}
