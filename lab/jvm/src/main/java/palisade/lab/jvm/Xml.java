package palisade.lab.jvm;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import javax.xml.XMLConstants;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.parsers.SAXParserFactory;
import javax.xml.transform.Templates;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import javax.xml.validation.Schema;
import javax.xml.validation.SchemaFactory;
import javax.xml.validation.ValidatorHandler;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.xml.sax.Attributes;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;
import org.xml.sax.SAXParseException;
import org.xml.sax.XMLReader;
import org.xml.sax.helpers.DefaultHandler;

/** The JDK's own XSLT and XML Schema, on a list of orders. */
@State(Scope.Thread)
public class Xml {
    private static final int ORDERS = 150;

    private String document;
    private String wrongDocument;
    private Templates report;
    private Schema schema;
    private SAXParserFactory parsers;

    /** Writes the document; compiles style sheet and schema. */
    @Setup
    public void make() throws TransformerException, SAXException {
        document = document(Order.some(ORDERS));
        wrongDocument = document.replaceFirst("count=\"\\d+\"", "count=\"many\"");
        report = TransformerFactory.newInstance().newTemplates(resource("/orders.xsl"));
        schema = SchemaFactory.newInstance(XMLConstants.W3C_XML_SCHEMA_NS_URI).newSchema(resource("/orders.xsd"));
        parsers = SAXParserFactory.newInstance();
        parsers.setNamespaceAware(true);
    }

    private static StreamSource resource(String name) {
        return new StreamSource(new ByteArrayInputStream(Resources.read(name)));
    }

    private static String document(List<Order> orders) {
        var text = new StringBuilder("<orders>\n");
        for (Order order : orders) {
            text.append("  <order number=\"o-%d\" date=\"%s\" haste=\"%s\">\n"
                    .formatted(order.number, order.date, order.haste.name().toLowerCase()));
            text.append("    <customer number=\"%d\">%s</customer>\n"
                    .formatted(order.customer.number, order.customer.name.replace("&", "&amp;")));
            for (Order.Item item : order.items) {
                text.append("    <item count=\"%d\" price=\"%s\">%s</item>\n"
                        .formatted(item.count(), item.price(), item.good()));
            }
            text.append("  </order>\n");
        }
        return text.append("</orders>\n").toString();
    }

    /** A page of the orders, grouped by customer, with totals. */
    @Benchmark
    public long transform() throws TransformerException {
        var page = new StringWriter();
        report.newTransformer()
                .transform(new StreamSource(new StringReader(document)), new StreamResult(page));
        return Checksum.expect(89_436_122L, Checksum.of(page.toString().getBytes(StandardCharsets.UTF_8)));
    }

    /** A document that is valid, and one that is not. */
    @Benchmark
    public long validation() throws ParserConfigurationException, SAXException, IOException {
        Count right = validate(document);
        Count wrong = validate(wrongDocument);
        if (right.faults != 0 || wrong.faults == 0) {
            throw new IllegalStateException("faults: " + right.faults + " and " + wrong.faults);
        }
        return Checksum.expect(748_002L, right.elements * 1000L + wrong.faults);
    }

    private Count validate(String text) throws ParserConfigurationException, SAXException, IOException {
        var count = new Count();
        ValidatorHandler validator = schema.newValidatorHandler();
        validator.setContentHandler(count);
        validator.setErrorHandler(count);
        XMLReader reader = parsers.newSAXParser().getXMLReader();
        reader.setContentHandler(validator);
        reader.parse(new InputSource(new StringReader(text)));
        return count;
    }

    private static final class Count extends DefaultHandler {
        private int elements;
        private int faults;

        @Override
        public void startElement(String space, String name, String qualified, Attributes attributes) {
            elements++;
        }

        @Override
        public void error(SAXParseException fault) {
            faults++;
        }
    }
}
