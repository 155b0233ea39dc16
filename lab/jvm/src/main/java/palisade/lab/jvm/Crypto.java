package palisade.lab.jvm;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.RSAPrivateCrtKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.util.Arrays;
import java.util.Random;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** Ciphers and signatures of the JDK's own providers. The keys guard nothing: they are the same everywhere. */
@State(Scope.Thread)
public class Crypto {
    private static final int[] SIZES = {100, 1_000, 50_000};

    private final byte[][] messages = Arrays.stream(SIZES).mapToObj(Crypto::bytes).toArray(byte[][]::new);
    private final SecretKey aes = new SecretKeySpec(bytes(16), "AES");
    private final SecretKey tripleDes = new SecretKeySpec(bytes(24), "DESede");
    private PrivateKey privateKey;
    private PublicKey publicKey;

    private static byte[] bytes(int count) {
        byte[] bytes = new byte[count];
        new Random(count).nextBytes(bytes);
        return bytes;
    }

    /** An RSA key of 2048 bits from the first primes after two known numbers. */
    @Setup
    public void makeKeys() throws GeneralSecurityException {
        BigInteger one = BigInteger.ONE;
        BigInteger exponent = BigInteger.valueOf(65_537);
        BigInteger p = primeAfter(1);
        BigInteger q = primeAfter(2);
        BigInteger modulus = p.multiply(q);
        BigInteger secret = exponent.modInverse(p.subtract(one).multiply(q.subtract(one)));
        var keys = KeyFactory.getInstance("RSA");
        publicKey = keys.generatePublic(new RSAPublicKeySpec(modulus, exponent));
        privateKey = keys.generatePrivate(new RSAPrivateCrtKeySpec(
                modulus, exponent, secret, p, q,
                secret.mod(p.subtract(one)), secret.mod(q.subtract(one)), q.modInverse(p)));
    }

    private static BigInteger primeAfter(long seed) {
        var random = new BigInteger(1024, new Random(seed));
        return random.setBit(1023).setBit(1022).nextProbablePrime();
    }

    /** AES and triple DES in chains, there and back. */
    @Benchmark
    public long aes() throws GeneralSecurityException {
        long sum = 0;
        for (byte[] message : messages) {
            sum = sum * 31 + encryptAndDecrypt("AES/CBC/PKCS5Padding", aes, message);
            sum = sum * 31 + encryptAndDecrypt("DESede/CBC/PKCS5Padding", tripleDes, message);
        }
        return Checksum.expect(113_282_433_715_537_438L, sum);
    }

    private static long encryptAndDecrypt(String name, SecretKey key, byte[] message)
            throws GeneralSecurityException {
        var cipher = Cipher.getInstance(name);
        var start = new IvParameterSpec(bytes(cipher.getBlockSize()));
        cipher.init(Cipher.ENCRYPT_MODE, key, start);
        byte[] secret = cipher.doFinal(message);
        cipher.init(Cipher.DECRYPT_MODE, key, start);
        if (!Arrays.equals(message, cipher.doFinal(secret))) {
            throw new IllegalStateException("what was decrypted is not what was encrypted");
        }
        return Checksum.of(secret);
    }

    /** RSA, there and back. What it encrypts is padded by chance: only what comes back is always the same. */
    @Benchmark
    public long rsa() throws GeneralSecurityException {
        var cipher = Cipher.getInstance("RSA/ECB/PKCS1Padding");
        cipher.init(Cipher.ENCRYPT_MODE, publicKey);
        byte[] secret = cipher.doFinal(messages[0]);
        cipher.init(Cipher.DECRYPT_MODE, privateKey);
        return Checksum.expect(1_700_493_690L, Checksum.of(cipher.doFinal(secret)));
    }

    /** Signatures with several digests, each verified, and refused for another message. */
    @Benchmark
    public long signverify() throws GeneralSecurityException {
        long sum = 0;
        for (String name : new String[] {"SHA1withRSA", "SHA256withRSA", "SHA512withRSA"}) {
            var signature = Signature.getInstance(name);
            signature.initSign(privateKey);
            signature.update(messages[1]);
            byte[] signed = signature.sign();
            if (!verifies(signature, messages[1], signed) || verifies(signature, messages[0], signed)) {
                throw new IllegalStateException(name + " does not tell messages apart");
            }
            sum = sum * 31 + Checksum.of(signed);
        }
        return Checksum.expect(1_091_056_344_969L, sum);
    }

    private boolean verifies(Signature signature, byte[] message, byte[] signed) throws GeneralSecurityException {
        signature.initVerify(publicKey);
        signature.update(message);
        return signature.verify(signed);
    }
}
