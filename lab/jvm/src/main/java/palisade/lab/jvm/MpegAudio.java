package palisade.lab.jvm;

import java.io.ByteArrayInputStream;
import javazoom.jl.decoder.Bitstream;
import javazoom.jl.decoder.BitstreamException;
import javazoom.jl.decoder.Decoder;
import javazoom.jl.decoder.DecoderException;
import javazoom.jl.decoder.Header;
import javazoom.jl.decoder.SampleBuffer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** JLayer's decoder of MP3, on a chord of a few seconds. */
@State(Scope.Thread)
public class MpegAudio {
    private final byte[] chord = Resources.read("/chord.mp3");

    /** The decoder's tables are made by whoever comes first, and not for two at a time. */
    @Setup
    public void makeTables() throws BitstreamException, DecoderException {
        synchronized (MpegAudio.class) {
            mpegaudio();
        }
    }

    /** How many samples there are, and how loud they are together. */
    @Benchmark
    public long mpegaudio() throws BitstreamException, DecoderException {
        var stream = new Bitstream(new ByteArrayInputStream(chord));
        var decoder = new Decoder();
        long samples = 0;
        long loudness = 0;
        for (Header frame = stream.readFrame(); frame != null; frame = stream.readFrame()) {
            var sound = (SampleBuffer) decoder.decodeFrame(frame, stream);
            samples += sound.getBufferLength();
            for (int index = 0; index < sound.getBufferLength(); index++) {
                loudness += Math.abs(sound.getBuffer()[index]);
            }
            stream.closeFrame();
        }
        stream.close();
        // The decoder's tables are of sines and powers, whose last bit the JDK does not promise.
        return Checksum.expect(3_571_205_634L, samples * 10_000 + (loudness + samples / 2) / samples);
    }
}
