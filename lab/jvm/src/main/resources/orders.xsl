<?xml version="1.0" encoding="UTF-8"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="xml" indent="no" omit-xml-declaration="yes"/>
  <xsl:key name="by-customer" match="order" use="customer/@number"/>

  <xsl:template match="/orders">
    <page>
      <xsl:for-each select="order[generate-id() = generate-id(key('by-customer', customer/@number)[1])]">
        <xsl:sort select="customer/@number" data-type="number"/>
        <section title="{customer}">
          <xsl:apply-templates select="key('by-customer', customer/@number)">
            <xsl:sort select="@date"/>
          </xsl:apply-templates>
        </section>
      </xsl:for-each>
    </page>
  </xsl:template>

  <xsl:template match="order">
    <row class="{@haste}" number="{substring-after(@number, '-')}">
      <xsl:call-template name="total">
        <xsl:with-param name="items" select="item"/>
      </xsl:call-template>
    </row>
  </xsl:template>

  <xsl:template name="total">
    <xsl:param name="items"/>
    <xsl:param name="so-far" select="0"/>
    <xsl:choose>
      <xsl:when test="$items">
        <xsl:call-template name="total">
          <xsl:with-param name="items" select="$items[position() &gt; 1]"/>
          <xsl:with-param name="so-far" select="$so-far + $items[1]/@count * $items[1]/@price"/>
        </xsl:call-template>
      </xsl:when>
      <xsl:otherwise>
        <xsl:value-of select="format-number($so-far, '#,##0.00')"/>
      </xsl:otherwise>
    </xsl:choose>
  </xsl:template>
</xsl:stylesheet>
