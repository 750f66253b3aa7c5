/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4) for the transcripts; the constants are computed, not listed. */
#include "oracle.h"

static uint32_t k[64];
static uint32_t h0[8];

static uint32_t ror(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* The first 32 bits of the fraction of the square or cube root of a prime, by bisection. */
static uint32_t root_fraction(unsigned prime, int power)
{
	unsigned __int128 low = 0, high = (unsigned __int128)20 << 32;
	unsigned __int128 want = (unsigned __int128)prime << (power == 2 ? 64 : 96);

	while (high - low > 1) {
		unsigned __int128 mid = (low + high) / 2;
		unsigned __int128 value = power == 2 ? mid * mid : mid * mid * mid;

		if (value <= want)
			low = mid;
		else
			high = mid;
	}
	return (uint32_t)low;
}

static void make_constants(void)
{
	unsigned prime = 2, n = 0;

	for (; n < 64; prime++) {
		unsigned d = 2;

		while (d * d <= prime && prime % d)
			d++;
		if (d * d <= prime)
			continue;
		if (n < 8)
			h0[n] = root_fraction(prime, 2);
		k[n++] = root_fraction(prime, 3);
	}
}

__attribute__((constructor)) static void start(void)
{
	make_constants();
}

static void round_block(uint32_t h[8], const unsigned char *p)
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
		       (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
	memcpy(v, h, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0];
		uint32_t t1 = v[7] + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +
			      ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
		uint32_t t2 = (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +
			      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

void sha256_start(struct sha256 *s)
{
	memcpy(s->h, h0, sizeof(h0));
	s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	while (n) {
		size_t at = s->bytes % 64, part = 64 - at < n ? 64 - at : n;

		memcpy(s->block + at, p, part);
		s->bytes += part;
		p += part;
		n -= part;
		if (s->bytes % 64 == 0)
			round_block(s->h, s->block);
	}
}

void sha256_hex(struct sha256 *s, char hex[65])
{
	uint64_t bits = s->bytes * 8;
	unsigned char length[8], pad = 0x80;

	sha256_add(s, &pad, 1);
	pad = 0;
	while (s->bytes % 64 != 56)
		sha256_add(s, &pad, 1);
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_add(s, length, 8);
	for (int i = 0; i < 8; i++)
		sprintf(hex + 8 * i, "%08x", s->h[i]);
}
