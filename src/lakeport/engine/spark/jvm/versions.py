"""What was run together: versions of Spark and its parts, and the jars each destination needs.

Each jar list is closed: what it needs beyond itself, pyspark ships. Jars that pyspark ships in
another version (Netty, HttpClient, SLF4J) are left out, and so are the AWS SDK's 686 MB `bundle`
and Delta's second Hadoop and Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakeport.errors import ConfigError

PYSPARK: Final = "4.2.0"
SCALA: Final = "2.13"
DELTA: Final = "4.4.0"
HADOOP: Final = "3.5.0"
AWS_SDK: Final = "2.35.4"
JAVA: Final = (17, 21, 25)
"""Java's feature versions that Spark runs on; the first one is what messages suggest."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of Maven Central, with the SHA-256 of its content in hex, and its size in bytes.

    >>> Jar("io.delta", "delta-storage", "4.4.0", "c467…", 113_863).path
    'io/delta/delta-storage/4.4.0/delta-storage-4.4.0.jar'
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The file's place below a Maven repository's address."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


_AWS_SDK_JARS: Final = {
    "annotations": ("6f36bd87155d1dd85d6efbdd29e532e3759a022211feb71affebee1aa34f04b8", 13_758),
    "apache-client": ("6eade21b482724ed0a4613eaa95d20e47e7a81304bd28538ac427fece94a7740", 77_013),
    "arns": ("c63cc29f76a8527e9e10b621703163df541dc5cb315508dc2898518602c75380", 16_323),
    "auth": ("6b601323004833fb4a857ffc95db4795e0e6320eb93e64b1246c655c9ff04994", 241_952),
    "aws-core": ("fdb5fc8f1a48d97fa7d04d3460fb42f6973c7b1bbe1b9d317871ef0162bcb623", 192_161),
    "aws-query-protocol": (
        "9b4cf9b78977cc9f5b4ceae9c435dedbde6a055a0f8d9e053eaca945715e2a9f",
        69_369,
    ),
    "aws-xml-protocol": (
        "4f59176da2522c357b1993e4a890fde529f12f365795ef86269bde4a3984cd0d",
        102_272,
    ),
    "checksums": ("94464af4374d08ecf33ca06ed4d03e1615529e547726e26b56abacefbeee7948", 69_585),
    "checksums-spi": ("88b5af85ac2d3c862be8856be4e683ab31932e4a5a3c1c45af864d2671ac7cec", 8_044),
    "crt-core": ("2c6aaa17bf9ccbb9d962dded4351e73decb197e3c5519970e0dae17e05d3df62", 17_774),
    "endpoints-spi": ("ef02441bda916959b8341290b49c68cc35538e1ad6f8629b75d8334dc6653e00", 13_168),
    "http-auth": ("3ec933a06e751a05e195eb3589209e23c44e1897263b6fcae34ef4cc63cd4491", 17_475),
    "http-auth-aws": ("c4acb92fdec90bfd9b67bfab8e41b69cd152c03cacc10281a8ab464791856e01", 171_754),
    "http-auth-aws-eventstream": (
        "709107552f302be3fa9e05969a3779f5c0f07fb809e6fa1fa571a6f0c61326dd",
        8_705,
    ),
    "http-auth-spi": ("4495463406bb98eb136f2c3f3604ed5f08ec9974ebc3f34f2121b20679f61d5c", 48_042),
    "http-client-spi": ("728be89b2a07b595edb0adee3a2cbbbdd4cb1f4caddde0d08c3979fe2620dedb", 91_685),
    "identity-spi": ("188d73db7d4e2361654bc3c5a1b3eaeb445d0500fb012cc46c5d67975adf97bf", 30_963),
    "json-utils": ("80d67a6bb3e7eb49c7d4b6e4ba4c1463ed7da0192b795158328602dc131c5ecc", 33_225),
    "metrics-spi": ("c2a4ee90a21081317e2e6eba0c414d05d3d518aed2f86b1c1710a7367b450487", 27_262),
    "netty-nio-client": (
        "b82f8b33e5c85273a47da45ede884d7ccb31c9c2f69e6910a76c5c48fa1275dc",
        292_688,
    ),
    "profiles": ("0f4ef7ca72ccd80dd49ebeaf7f3ce60a7d7a00da59a91aeeae6e91052bbacbd8", 50_524),
    "protocol-core": ("f2532eca6ba2142fe4821d5decb03c83a3e15dc8bfae2240e7f2efa75f9868b5", 44_371),
    "regions": ("77eae87b34ce96ecdf916a9bc06684dbeafcb6d38ef0513285fa5d5d6d41f5ca", 962_286),
    "retries": ("f99fb2f8c66d7e859955b3542d3af8f9de8f23a21d5e3250f0f2c5f18487e469", 66_309),
    "retries-spi": ("668638751d059c527ddd41ffa4dcebe36a7c14860ed56776df09b861c14dc7dd", 31_487),
    "s3": ("f23532c5223be9b0bfec0d72837ed09ed34dbdf8022818ba145b20076a78b4bc", 4_084_242),
    "s3-transfer-manager": (
        "0eec78870b3d0abc509a847072cf963cb2ae6e360dc6161a9449b3398c470476",
        251_117,
    ),
    "sdk-core": ("fa559a4ce598852f3519c8f3b36250f583b0858a7611eedc4a81997778c617f4", 1_040_729),
    "sts": ("8d0f7816d3f96e3f00249f5d054d926e939a104bcf9ef57676ee0b16c59684d2", 545_150),
    "third-party-jackson-core": (
        "32f4252c6c2df8f3a4aff885e6dc77024ad6b4cb48455d07b461ec30c41643ea",
        535_001,
    ),
    "utils": ("642aeef536a071668f0b772f05f9d21573abf6955e7b6fb5fdb893760cca10e8", 241_618),
    "utils-lite": ("e004806def5e22ec98edc48a133ff3317166255e1ba29d93d129e9fdfa64a7be", 8_798),
}

_OPENSSL = Jar(
    "org.wildfly.openssl",
    "wildfly-openssl",
    "2.2.5.Final",
    "71fb7932f99a727edb23c5a2cb8c6855ac7196fad41aa0669b3998e277165154",
    584_138,
)

JARS: Final[dict[str, tuple[Jar, ...]]] = {
    "delta": (
        Jar(
            "io.delta",
            "delta-spark_4.2_2.13",
            DELTA,
            "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
            9_515_916,
        ),
        Jar(
            "io.delta",
            "delta-storage",
            DELTA,
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
            113_863,
        ),
    ),
    "s3a": (
        Jar(
            "org.apache.hadoop",
            "hadoop-aws",
            HADOOP,
            "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
            938_071,
        ),
        Jar(
            "software.amazon.s3.analyticsaccelerator",
            "analyticsaccelerator-s3",
            "1.3.1",
            "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
            2_473_459,
        ),
        Jar(
            "software.amazon.eventstream",
            "eventstream",
            "1.0.1",
            "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
            30_193,
        ),
        Jar(
            "org.reactivestreams",
            "reactive-streams",
            "1.0.4",
            "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
            11_640,
        ),
        _OPENSSL,
        *(
            Jar("software.amazon.awssdk", name, AWS_SDK, *pin)
            for name, pin in _AWS_SDK_JARS.items()
        ),
    ),
    "azure": (
        Jar(
            "org.apache.hadoop",
            "hadoop-azure",
            HADOOP,
            "220b5db238b82437960e4b81c7e3eefa4eff2a03ad502887497f11d0ad86e663",
            643_815,
        ),
        Jar(
            "org.hdrhistogram",
            "HdrHistogram",
            "2.1.12",
            "9b47fbae444feaac4b7e04f0ea294569e4bc282bc69d8c2ce2ac3f23577281e2",
            173_763,
        ),
        _OPENSSL,
    ),
}
"""Need -> its jars, in the order in which they stand on the class path."""


def jars_for(needs: Iterable[str]) -> tuple[Jar, ...]:
    """The jars of all needs, each once, in an order that depends on the needs only.

    Raises:
        ConfigError: a need that nothing is pinned for.

    >>> [jar.artifact for jar in jars_for({"delta"})]
    ['delta-spark_4.2_2.13', 'delta-storage']
    """
    wanted = set(needs)
    if unknown := sorted(wanted - JARS.keys()):
        raise ConfigError(
            f"no jars are pinned for {', '.join(map(repr, unknown))}",
            f"known are {', '.join(JARS)}.",
        )
    return tuple(dict.fromkeys(jar for need in JARS if need in wanted for jar in JARS[need]))
