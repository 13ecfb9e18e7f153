//! What is said of damaged rows, word for word.

use wattio_trace::Reader;

/// The first line is sound where the case is about a later one.
const CASES: [(&str, &str); 19] = [
    (
        "1,h,0,Read,0,512,0\n2,h,0,Red,0,512,0\n",
        "msr trace, record 2 (line 2, byte 19): Type is \"Red\"; Read or Write is needed",
    ),
    (
        "1,h,0,Read,0,512,0\n2,h,0,Read,0,512\n",
        "msr trace, record 2 (line 2, byte 19): 6 columns in \"2,h,0,Read,0,512\"; 7 are needed",
    ),
    (
        "1,h,0,Read,0,512,0\n2,h,0,Read,0,512,x\n",
        "msr trace, record 2 (line 2, byte 19): ResponseTime is \"x\"; a whole number below 2^64 is needed",
    ),
    (
        "1,h,0,Read,0,512,0\n-2,h,0,Read,0,512,0\n",
        "msr trace, record 2 (line 2, byte 19): Timestamp is \"-2\"; a whole number below 2^64 is needed",
    ),
    (
        "1,h,0,Read,0,512,0\n2,h,5000000000,Read,0,512,0\n",
        "msr trace, record 2 (line 2, byte 19): DiskNumber is 5000000000; at most 4294967295 is taken",
    ),
    (
        "1,h,0,Read,0,512,0\n2,h,0,Read,,512,0\n",
        "msr trace, record 2 (line 2, byte 19): Offset is \"\"; a whole number below 2^64 is needed",
    ),
    (
        "1,h,0,Read,0,512,0\n2,h,0,Read,0,4294967296,0\n",
        "msr trace, record 2 (line 2, byte 19): Size is 4294967296; at most 4294967295 is taken",
    ),
    (
        "1,h,0,Read,0,512,0\n184467440737095517,h,0,Read,0,512,0\n",
        "msr trace, record 2 (line 2, byte 19): the time 184467440737095517 is too large; at most 184467440737095516 is taken",
    ),
    (
        "0,R,0,512,5\n0,X,0,512,6\n",
        "alibaba trace, record 2 (line 2, byte 12): opcode is \"X\"; R or W is needed",
    ),
    (
        "0,R,0,512,5\n0,R,0,512\n",
        "alibaba trace, record 2 (line 2, byte 12): 4 columns in \"0,R,0,512\"; 5 are needed",
    ),
    (
        "0,R,0,512,5\nv,R,0,512,6\n",
        "alibaba trace, record 2 (line 2, byte 12): device_id is \"v\"; a whole number below 2^64 is needed",
    ),
    (
        "0,R,0,512,5\n0,R,0,512,99999999999999999999\n",
        "alibaba trace, record 2 (line 2, byte 12): timestamp is \"99999999999999999999\"; a whole number below 2^64 is needed",
    ),
    (
        "0,R,0,512,5\n0,R,-1,512,6\n",
        "alibaba trace, record 2 (line 2, byte 12): offset is \"-1\"; a whole number below 2^64 is needed",
    ),
    (
        "1,8,8,0,3\n1,8,8,2,3\n",
        "tencent trace, record 2 (line 2, byte 10): IOType is \"2\"; 0 (read) or 1 (write) is needed",
    ),
    (
        "1,8,8,0,3\n1.5,8,8,1,3\n",
        "tencent trace, record 2 (line 2, byte 10): Timestamp is \"1.5\"; a whole number below 2^64 is needed",
    ),
    (
        "1,8,8,0,3\n1,8,8388608,1,3\n",
        "tencent trace, record 2 (line 2, byte 10): 8388608 sectors in one request; at most 8388607 are taken",
    ),
    (
        "1,8,8,0,3\n1,36028797018963968,8,1,3\n",
        "tencent trace, record 2 (line 2, byte 10): the offset of 36028797018963968 sectors is too large; at most 36028797018963967 is taken",
    ),
    (
        "1,8,8,0,3\n1,8,8,1\n",
        "tencent trace, record 2 (line 2, byte 10): 4 columns in \"1,8,8,1\"; 5 are needed",
    ),
    (
        "Timestamp,Offset,Size,IOType,VolumeID\n1,8,8,R,3\n",
        "tencent trace, record 1 (line 2, byte 38): IOType is \"R\"; 0 (read) or 1 (write) is needed",
    ),
];

#[test]
fn damaged_rows_are_named() {
    for (text, expected) in CASES {
        let failure = Reader::from_bytes(text).expect("recognised").find_map(Result::err);
        let message = failure.expect("damaged").to_string();
        assert_eq!(message, expected, "{text}");
    }
}
