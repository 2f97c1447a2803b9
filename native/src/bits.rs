//! Bits as Arrow packs them: booleans, and the validity of values.

#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn ones(len: usize) -> Self {
        let mut bits = Bits { bytes: vec![0xff; len.div_ceil(8)], len: len.next_multiple_of(8) };
        bits.truncate(len);
        bits
    }

    #[inline(always)]
    pub fn push(&mut self, bit: bool) {
        let at = self.len & 7;
        if at == 0 {
            self.bytes.push(bit as u8);
        } else if let Some(last) = self.bytes.last_mut() {
            *last |= (bit as u8) << at;
        }
        self.len += 1;
    }

    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len.div_ceil(8));
        if len & 7 != 0
            && let Some(last) = self.bytes.last_mut()
        {
            *last &= (1 << (len & 7)) - 1;
        }
        self.len = len;
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The validity bits of a column, which take no memory until a value is null.
#[derive(Default)]
pub struct Validity {
    pub len: usize,
    bits: Option<Bits>,
}

impl Validity {
    #[inline(always)]
    pub fn push(&mut self, valid: bool) {
        match &mut self.bits {
            Some(bits) => bits.push(valid),
            None if valid => {}
            None => self.bits.insert(Bits::ones(self.len)).push(false),
        }
        self.len += 1;
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = len;
        if let Some(bits) = &mut self.bits {
            bits.truncate(len);
        }
    }

    /// Whether any value is null.
    pub fn any_null(&self) -> bool {
        self.bits.is_some()
    }

    /// Whether the last value is not null.
    pub fn last(&self) -> bool {
        let at = self.len - 1;
        self.bits.as_ref().is_none_or(|bits| bits.bytes[at / 8] >> (at % 8) & 1 == 1)
    }

    /// Return the number of nulls, and the bits if there is any.
    pub fn finish(self) -> (usize, Option<Vec<u8>>) {
        let Some(bits) = self.bits else { return (0, None) };
        let ones: usize = bits.bytes.iter().map(|byte| byte.count_ones() as usize).sum();
        (self.len - ones, (ones < self.len).then_some(bits.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_found_wherever_they_come() {
        for len in 0..20usize {
            for null in 0..len {
                let mut validity = Validity::default();
                (0..len).for_each(|at| validity.push(at != null));
                assert_eq!(validity.last(), null != len - 1);
                let (nulls, bits) = validity.finish();
                let mut wanted = vec![0u8; len.div_ceil(8)];
                (0..len).filter(|at| *at != null).for_each(|at| wanted[at / 8] |= 1 << (at % 8));
                assert_eq!((nulls, bits), (1, Some(wanted)));
            }
        }
    }

    #[test]
    fn what_is_cut_off_leaves_no_trace() {
        let mut validity = Validity::default();
        for valid in [true, true, false, true] {
            validity.push(valid);
        }
        validity.truncate(2);
        validity.push(true);
        assert_eq!(validity.finish(), (0, None));
    }
}
