//! JSON whose members keep their order and whose numbers keep their digits.

#[derive(Clone, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub fn text(value: impl ToString) -> Json {
    Json::Text(value.to_string())
}

pub fn object(members: &[(&str, Json)]) -> Json {
    Json::Object(members.iter().map(|(key, value)| (key.to_string(), value.clone())).collect())
}

pub fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{:02x}", byte)).collect()
}

pub fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

impl Json {
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn list(&self, key: &str) -> &[Json] {
        self.get(key).map_or(&[], Json::items)
    }

    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    /// A string, or the digits of a number.
    pub fn str(&self) -> &str {
        match self {
            Json::Text(text) | Json::Number(text) => text,
            _ => "",
        }
    }

    pub fn text(&self, key: &str) -> &str {
        self.get(key).map_or("", Json::str)
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key).filter(|value| !value.str().is_empty()).map(|value| value.str().parse().unwrap())
    }

    /// Compact, members in order. Of a float its bits, which its text has to give when it is read.
    pub fn canonical(&self) -> String {
        match self {
            Json::Null => "null".into(),
            Json::Bool(value) => value.to_string(),
            Json::Number(digits) => digits.clone(),
            Json::Text(text) => format!("{:?}", text),
            Json::List(items) => format!("[{}]", items.iter().map(Json::canonical).collect::<Vec<_>>().join(",")),
            Json::Object(members) => match (members.len(), self.get("float"), self.get("bits")) {
                (2, Some(float), Some(bits)) => {
                    let number = f64::from_bits(u64::from_str_radix(bits.str(), 16).unwrap());
                    let same = |read: f64| read.to_bits() == number.to_bits() || read.is_nan() && number.is_nan();
                    let right = float.str().is_empty() || float.str().parse().map_or(false, same);
                    format!(
                        "float {}{}",
                        bits.str(),
                        if right { "".into() } else { format!(" and not {}", float.str()) }
                    )
                }
                _ => {
                    let member = |(key, value): &(String, Json)| format!("{:?}:{}", key, value.canonical());
                    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
                }
            },
        }
    }
}

pub struct Parser<'a> {
    pub data: &'a [u8],
    pub at: usize,
}

impl Parser<'_> {
    /// The next byte that is no space, which stays to be read.
    fn peek(&mut self) -> u8 {
        while self.data[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        self.data[self.at]
    }

    /// Whether a list or an object goes on; reads commas and ends.
    fn more(&mut self, end: u8) -> bool {
        let byte = self.peek();
        self.at += usize::from(byte == b',' || byte == end);
        byte != end
    }

    pub fn value(&mut self) -> Json {
        match self.peek() {
            b'"' => Json::Text(self.string()),
            b'[' => {
                let mut items = vec![];
                self.at += 1;
                while self.more(b']') {
                    items.push(self.value());
                }
                Json::List(items)
            }
            b'{' => {
                let mut members = vec![];
                self.at += 1;
                while self.more(b'}') {
                    self.peek();
                    let key = self.string();
                    assert_eq!(self.peek(), b':');
                    self.at += 1;
                    members.push((key, self.value()));
                }
                Json::Object(members)
            }
            _ => {
                let length = self.data[self.at..].iter().take_while(|byte| !b" \r\n\t,]}".contains(byte)).count();
                let word = std::str::from_utf8(&self.data[self.at..self.at + length]).unwrap();
                self.at += length;
                match word {
                    "null" => Json::Null,
                    "true" | "false" => Json::Bool(word == "true"),
                    _ => Json::Number(word.into()),
                }
            }
        }
    }

    fn string(&mut self) -> String {
        let mut units: Vec<u8> = vec![];
        self.at += 1;
        while self.data[self.at] != b'"' {
            self.at += 1;
            match (self.data[self.at - 1], self.data[self.at]) {
                (b'\\', b'u') => {
                    let mut pair = vec![self.unit()];
                    if (0xd800..0xdc00).contains(&pair[0]) && self.data[self.at + 1..].starts_with(b"\\u") {
                        self.at += 2;
                        pair.push(self.unit());
                    }
                    units.extend(String::from_utf16(&pair).unwrap().bytes());
                }
                (b'\\', code) => units.push(match code {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    same => same,
                }),
                (byte, _) => {
                    units.push(byte);
                    self.at -= 1;
                }
            }
            self.at += 1;
        }
        self.at += 1;
        String::from_utf8(units).unwrap()
    }

    /// The four digits behind `\u`; stops at the last of them.
    fn unit(&mut self) -> u16 {
        let digits = std::str::from_utf8(&self.data[self.at + 1..self.at + 5]).unwrap();
        self.at += 4;
        u16::from_str_radix(digits, 16).unwrap()
    }
}
