use super::*;
use crate::{Kind, Reader, Reading, TraceError};

const WEB: &str = "time=0:us,op=2,lba=3:sectors,size=4:bytes";

#[test]
fn every_known_format_can_be_used() {
    for known in &KNOWN {
        let rows = known.rows().expect(known.columns);
        assert!(known.telling.iter().all(|&at| at < known.names.len()), "{}", known.format);
        assert_eq!(rows.width.0, known.names.len());
    }
}

fn read(format: Format, text: &str) -> (Vec<Record>, u64) {
    let mut reader = Reader::from_bytes(text).expect("recognised");
    assert_eq!(reader.format(), format);
    let records = reader.by_ref().map(|record| record.expect("sound")).collect();
    (records, reader.skipped().others)
}

fn record(time_ns: u64, offset_bytes: u64, bytes: u32, device: u32, kind: Kind) -> Record {
    Record { time_ns, offset_bytes, bytes, device, kind }
}

#[test]
fn msr_alibaba_and_tencent() {
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
               128166372003061629,src1,2,Read,7014609920,24576,41286\r\n\
               128166372003071629,src1,2,write,512,4096,1\r\n";
    let expected = vec![
        record(0, 7_014_609_920, 24_576, 2, Kind::Read),
        record(1_000_000, 512, 4096, 2, Kind::Write),
    ];
    assert_eq!(read(Format::Msr, msr), (expected, 0));
    let alibaba = "419,W,8792731648,16384,1577808144360767\n725,R,0,512,1577808144360813\n";
    let expected = vec![
        record(0, 8_792_731_648, 16_384, 419, Kind::Write),
        record(46_000, 0, 512, 725, Kind::Read),
    ];
    assert_eq!(read(Format::Alibaba, alibaba), (expected, 0));
    let tencent = "1538323200,12910952,128,0,1063\n1538323202,6338688,8,1,1627\n";
    let expected = vec![
        record(0, 12_910_952 * 512, 65_536, 1063, Kind::Read),
        record(2_000_000_000, 6_338_688 * 512, 4096, 1627, Kind::Write),
    ];
    assert_eq!(read(Format::Tencent, tencent), (expected, 0));
}

#[test]
fn systor17_with_what_had_no_answer() {
    let rows = "1456135200.013118000,0.000806000,R,0,899056122368,131072\n\
                1456135200.013119000,,,0,899056122368,131072\n\
                1456135201.013118000,0.0001,W,3,512,4096\n";
    let expected = vec![
        record(0, 899_056_122_368, 131_072, 0, Kind::Read),
        record(1_000_000_000, 512, 4096, 3, Kind::Write),
    ];
    assert_eq!(read(Format::Systor17, rows), (expected.clone(), 1));
    let with_header = format!("Timestamp,Response,IOType,LUN,Offset,Size\n{rows}");
    assert_eq!(read(Format::Systor17, &with_header), (expected, 1));
}

#[test]
fn spc_with_optional_fields() {
    let text = "0,20941264,8192,W,0.551706,Alpha/NT\n0, 20939840, 8192, w, 0.554041\n\
                1,3436288,15872,r,1.011732,x,y\n";
    let expected = vec![
        record(0, 20_941_264 * 512, 8192, 0, Kind::Write),
        record(2_335_000, 20_939_840 * 512, 8192, 0, Kind::Write),
        record(460_026_000, 3_436_288 * 512, 15_872, 1, Kind::Read),
    ];
    assert_eq!(read(Format::Spc, text), (expected, 0));
}

#[test]
fn fiu_with_a_device_of_two_numbers() {
    let text = "89966538925 4892 syslogd 904265560 8 W 6 0 531e779c0a3c8fd4\n\
                89966545925 2559 kjournald 11 16 R 8 1 f2a5\n";
    let expected = vec![
        record(0, 904_265_560 * 512, 4096, 6 << 20, Kind::Write),
        record(7_000, 11 * 512, 8192, 8 << 20 | 1, Kind::Read),
    ];
    assert_eq!(read(Format::Fiu, text), (expected, 0));
}

/// Whole numbers in the columns of SPC could also be a time, an offset, a size and a device.
#[test]
fn what_could_be_anything_is_not_taken_for_spc() {
    let text = "100,4096,512,R,0\n200,0,512,W,0\n";
    assert!(matches!(Reader::from_bytes(text), Err(TraceError::UnrecognisedFormat { .. })));
    let found = described("time=0:us,op=3,lba=1:bytes,size=2:bytes,device=4", text);
    assert_eq!(found.expect("sound").0[1].time_ns, 100_000);
    let reading = Reading::new(Some("spc"), None).expect("known");
    assert_eq!(Reader::of(text.as_bytes(), None, &reading).expect("lines").count(), 2);
}

#[test]
fn a_format_asked_for_is_not_looked_for() {
    // A damaged first line matches no format; if the format is named, the error is about the line.
    let text = "1,h,0,Red,0,512,0\n2,h,0,Read,0,512,0\n";
    assert!(matches!(Reader::from_bytes(text), Err(TraceError::UnrecognisedFormat { .. })));
    let named = |format: &str| {
        let reading = Reading::new(Some(format), None).expect("known");
        let reader = Reader::of(text.as_bytes(), None, &reading);
        reader.map(|mut reader| reader.find_map(Result::err).expect("damaged").to_string())
    };
    let message = named("msr").expect("lines");
    assert!(message.contains("(line 1, byte 0): Type is \"Red\""), "{message}");
    let refused = named("fio3").expect_err("no header").to_string();
    assert!(refused.contains("not of the format fio3: it begins with \"1,h,0"), "{refused}");
    let both = Reading::new(Some("msr"), Some(WEB)).expect_err("both").to_string();
    assert!(both.contains("exclude each other"), "{both}");
    assert!(Reading::new(Some("columns"), None).is_err());
}

fn described(columns: &str, text: &str) -> Result<(Vec<Record>, u64), TraceError> {
    let reading = Reading::new(None, Some(columns))?;
    let mut reader = Reader::of(std::io::Cursor::new(text.to_owned()), None, &reading)?;
    assert_eq!(reader.format(), Format::Columns);
    let records: Result<Vec<_>, _> = reader.by_ref().collect();
    Ok((records?, reader.skipped().others))
}

#[test]
fn described_columns_are_read() {
    let expected =
        vec![record(0, 4096, 512, 0, Kind::Read), record(1_500, 0, 4096, 0, Kind::Write)];
    for text in [
        "1000000,x,R,8,512\n1000001.5,y,w,0,4096\n",
        "when;who;what;where;how much\n1000000;x;read;8;512\n1000001.5;y;WRITE;0;4096\n",
        "1000000\tx\t0\t8\t512\t\n1000001.5\t\t1\t0\t4096\t\n",
        "\u{feff}1000000, x,  R, 8, 512\r\n\r\n1000001.5, , W, 0, 4096\r\n",
        "  1000000 x R 8 512 more\n1000001.5 y W 0 4096\n",
        "\"1000000\",\"a, b\",\"R\",8,512\n\"1000001.5\",\"c\",\"W\",0,4096\n",
        // As PowerShell and Python's csv write them; with blanks around the marks.
        "\"1000000\",\"a\",\"R\",\"8\",\"512\"\r\n\"1000001.5\",\"\",\"W\",\"0\",\"4096\"\r\n",
        "1000000, \"a, b\", \"R\" ,\t\"8\", \"512\" \n1000001.5, \"c\", \"W\", \"0\", \"4096\"\n",
        // Later rows may come first.
        "1000001.5,y,w,0,4096\n1000000,x,R,8,512\n",
    ] {
        assert_eq!(described(WEB, text).expect(text), (expected.clone(), 0), "{text}");
    }
}

/// A tab stands for a column even where the line begins or ends with it.
#[test]
fn empty_columns_at_the_ends_count() {
    let columns = "time=1:s,op=2,lba=3:bytes,size=4:bytes,device=5";
    let text = "\t1\tR\t512\t8\t3\n\t2\tR\t512\t8\t3\n";
    assert_eq!(described(columns, text).expect("sound").0[1].time_ns, 1_000_000_000);
    let message = described(columns, "\t1\tR\t512\t8\t\n").expect_err("no device").to_string();
    assert!(message.contains("column 5 (device) is \"\""), "{message}");
}

#[test]
fn columns_are_found_by_name_in_any_unit() {
    let text = "Op,Begin,End,Len,Dev,Minor\nget,2,116444736000000000,3,8,1\n\
                put,0,116444736000000010,1,8,0\nstat,0,116444736000000010,1,8,0\n";
    let columns = "time=end:filetime,op=Op:get/put/stat,lba=Begin:4k,size=Len:KiB,device=Dev+Minor";
    let expected = vec![
        record(0, 8192, 3072, 8 << 20 | 1, Kind::Read),
        record(1_000, 0, 1024, 8 << 20, Kind::Write),
    ];
    assert_eq!(described(columns, text).expect("sound"), (expected, 1));
}

#[test]
fn what_is_wrong_with_described_columns_is_named() {
    let named = "time=t:s,op=o,lba=b:bytes,size=n:bytes";
    for (columns, text, part) in [
        (
            WEB,
            "1,x,R,8,512\n2,x,T,8,512\n",
            "record 2 (line 2, byte 12): column 2 (op) is \"T\"; R, Read",
        ),
        (WEB, "1,x,R,8,512\n2,x,R,8.5,512\n", "column 3 (lba) is \"8.5\"; a whole number"),
        (WEB, "1,x,R,8,512\nx,x,R,8,512\n", "column 0 (time) is \"x\"; a decimal number"),
        (WEB, "1,x,R,8,512\n2,x,R,8\n", "4 columns in \"2,x,R,8\"; 5 are needed at least"),
        (WEB, "hello\n", "1 columns in \"hello\"; 5 are needed at least"),
        (WEB, "1,x,R,99999999999999999,512\n", "the offset of 99999999999999999 sectors is too"),
        (named, "t,o,b\n1,R,8\n", "the first line names no column \"n\"; it names \"t, o, b\""),
        (named, "t,o,b,n,n\n", "names \"n\" twice"),
        (named, "t,o,b,n\n1,R,8,-1\n", "record 1 (line 2, byte 8): column n is \"-1\"; a whole"),
        ("time=0:s,op=1,lba=2:bytes,size=3:4k", "1,R,8,1048576\n", "1048576 blocks of 4k in one"),
        ("time=0:s,op=1,lba=2:bytes,size=3:4k,device=4+5", "1,R,8,1,9999,0\n", "device is 9999,0"),
    ] {
        let message = described(columns, text).expect_err(text).to_string();
        assert!(
            message.starts_with("columns trace, record") && message.contains(part),
            "{message}"
        );
    }
}

/// The fields of a line, split in an independent way.
fn slow_cut(text: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    for letter in text.chars() {
        inside ^= letter == '"';
        if letter == separator && !inside {
            fields.push(String::new());
        } else if let Some(last) = fields.last_mut() {
            last.push(letter);
        }
    }
    let unmarked = |field: String| {
        let field = field.trim();
        let inner = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(field).trim().to_owned()
    };
    fields.into_iter().map(unmarked).collect()
}

proptest::proptest! {
    #[test]
    fn lines_are_cut_as_by_the_slow_way(text in "[a-c,\" ]{0,40}") {
        let mut cut = Cut::default();
        cut.line(text.as_bytes(), Separator::Quoted(b','));
        let found: Vec<_> = (0..cut.count())
            .map(|at| String::from_utf8_lossy(cut.field(text.as_bytes(), at)).into_owned())
            .collect();
        proptest::prop_assert_eq!(found, slow_cut(&text, ','));
        cut.line(text.as_bytes(), Separator::Blanks);
        proptest::prop_assert_eq!(cut.count(), text.split_ascii_whitespace().count());
    }

    /// The same requests are read whatever the order, separator and numbering of columns.
    #[test]
    fn any_arrangement_reads_back(
        requests in proptest::collection::vec((0u64..1 << 40, 0u64..1 << 30, 1u32..1 << 16, proptest::bool::ANY), 1..20),
        order in proptest::sample::subsequence(vec![0usize, 1, 2, 3, 4, 5, 6], 4),
        separator in proptest::sample::select(vec![",", ";", "\t", " "]),
        header in proptest::bool::ANY,
        by_name in proptest::bool::ANY,
    ) {
        let mut requests = requests;
        requests.sort_by_key(|request| request.0);
        let keys = ["time", "op", "lba", "size"];
        let row = |values: [String; 4]| {
            let mut all = vec!["-".to_owned(); 7];
            for (at, value) in order.iter().zip(values) {
                all[*at] = value;
            }
            all.join(separator) + "\n"
        };
        let mut text = if header || by_name { row(keys.map(str::to_owned)) } else { String::new() };
        for (time, lba, size, reads) in &requests {
            let op = if *reads { "Read" } else { "w" };
            text += &row([time.to_string(), op.to_owned(), lba.to_string(), size.to_string()]);
        }
        let units = [":ns", "", ":sectors", ":sectors"];
        let parts: Vec<_> = keys.iter().zip(&order).zip(units).map(|((key, at), unit)| {
            if by_name { format!("{key}={key}{unit}") } else { format!("{key}={at}{unit}") }
        }).collect();
        let (found, _) = described(&parts.join(","), &text).expect("sound");
        let first = requests[0].0;
        let expected: Vec<_> = requests.iter().map(|&(time, lba, size, reads)| {
            let kind = if reads { Kind::Read } else { Kind::Write };
            record(time - first, lba * 512, size * 512, 0, kind)
        }).collect();
        // The only damage is in times that go far backwards; sorted, all records are given out.
        proptest::prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_file_and_no_description_panics(
        columns in proptest::sample::select(vec![
            WEB, "time=t:s,op=o,lba=b:4k,size=n:KiB,device=1+0", "time=0:filetime,op=0,lba=0:bytes,size=0:4k",
        ]),
        text in "(t,o,b,n\n)?[0-9RW,;\t \"\n.a-c-]{0,300}",
    ) {
        if let Err(error) = described(columns, &text) {
            let message = error.to_string();
            proptest::prop_assert!(message.starts_with("columns trace") || message.contains("empty"), "{}", message);
        }
    }
}
